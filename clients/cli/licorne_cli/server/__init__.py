"""Commands about the server as a process: version, log levels, reload, state dump, health."""
