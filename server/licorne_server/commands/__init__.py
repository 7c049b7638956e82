"""Commands of `licorne` that run code of the server on this machine.

The command line finds them by the entry point of the group `licorne.commands`, which names
`COMMANDS`. It imports this file for every help, and the module of a command when it is chosen.
`server_process` and `child` start a server for the demo and for benches.
"""

_HERE = "licorne_server.commands"
COMMANDS = {
    "serve": (f"{_HERE}.serve", "serve resource managers"),
    "validate-config": (f"{_HERE}.validate_config", "check configuration files"),
    "simulate": (f"{_HERE}.simulate", "compare policies and configurations on a workload trace"),
    "demo": (f"{_HERE}.demo.command", "watch a real server schedule three fake resource managers"),
    "dev": (f"{_HERE}.demo.dev", "serve three fake resource managers, with the page, until Ctrl-C"),
    "replay": (f"{_HERE}.replay", "decide again what a journal has recorded, as it was or with changes"),
    "why": (f"{_HERE}.why", "say why an ask waited, or where it was, at a moment of a journal"),
    "fake-rm": (f"{_HERE}.fake_rm", "play a resource manager against a running server"),
}
"""Each command: its module, and its line in the help."""
