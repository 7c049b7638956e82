"""What the server shows of the core's extensions, each in a module of its own: see `wire/features.py`."""
