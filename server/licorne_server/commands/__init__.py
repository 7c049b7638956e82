"""Commands of `licorne` that run code of the server on this machine.

The command line finds them by the entry point of the group `licorne.commands`, which names
`COMMANDS`. It imports this file for every help, and the module of a command when it is chosen.
`server_process` and `child` start a server for the demo and for benches.
"""

_HERE = "licorne_server.commands"
_LAB = "licorne_server.lab"
_PLAYED = f"{_LAB}.commands"
COMMANDS = {
    "serve": (f"{_HERE}.serve", "serve resource managers"),
    "validate-config": (f"{_HERE}.validate_config", "check configuration files"),
    "simulate": (f"{_PLAYED}.simulate", "compare policies and configurations on a workload trace"),
    "demo": (f"{_LAB}.demo.command", "watch a real server schedule three fake resource managers"),
    "dev": (f"{_LAB}.demo.dev", "serve three fake resource managers, with the page, until Ctrl-C"),
    "replay": (f"{_PLAYED}.replay", "decide again what a journal has recorded, as it was or with changes"),
    "why": (f"{_PLAYED}.why", "say why an ask waited, or where it was, at a moment of a journal"),
    "fake-rm": (f"{_PLAYED}.fake_rm", "play a resource manager against a running server"),
}
"""Each command: its module, and its line in the help."""
