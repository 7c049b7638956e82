"""A core driven by a test, and its effects."""
