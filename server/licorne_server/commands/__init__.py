"""Commands of `licorne` that run a server on this machine, or check its files.

The command line finds them by an entry point of the group `licorne.commands`, which names
`COMMANDS`. It imports this file for every help text, and the module of a command when the command is run.
`server_process` and `child` start a server for the demo and for benches.
"""

_HERE = "licorne_server.commands"
COMMANDS = {
    "serve": (f"{_HERE}.serve", "serve resource managers"),
    "settings": (f"{_HERE}.settings", "print a file with all settings of serve, and their defaults"),
    "validate-config": (f"{_HERE}.validate_config", "check configuration files"),
}
"""Modules and help lines of the commands, by name."""
