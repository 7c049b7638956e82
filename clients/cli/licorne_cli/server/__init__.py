"""Commands for the server as a process: version, log levels, reload, state dump, and health."""
