"""The server's part of each extension of the core, one module for each: see `wire/features.py`."""
