"""The server's side of the core's extensions, a module for each: see `wire/features.py`."""
