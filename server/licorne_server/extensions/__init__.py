"""The server's side of the core's extensions, each in a module of its own: see `wire/features.py`."""
