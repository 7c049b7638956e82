"""Commands on a terminal."""
