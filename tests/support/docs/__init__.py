"""Pages of the documentation, and their commands."""
