"""A core in the hand of a test, and what it is told."""
