"""The laboratory: replays of recorded runs, simulations with a core of their own, and simulated RMs.

`simulation/` has the core in virtual time, `demo/` example clusters and RMs, and `commands/` the commands
`simulate`, `replay`, `why` and `fake-rm`. It uses the public interface of the core, the records of the
journal, the forms of explanations, and the commands that start a server. No other part of the server imports
or names this folder: the command line finds `COMMANDS` by a separate entry point, and imports this file for
every help text. So the folder can be left out together with its entry point.
"""

_HERE = "licorne_server.lab"
_PLAYED = f"{_HERE}.commands"
COMMANDS = {
    "simulate": (f"{_PLAYED}.simulate", "compare policies and configurations on a workload trace"),
    "demo": (f"{_HERE}.demo.command", "watch a real server schedule three fake resource managers"),
    "dev": (f"{_HERE}.demo.dev", "serve three fake resource managers, with the page, until Ctrl-C"),
    "replay": (f"{_PLAYED}.replay", "decide again what a journal has recorded, as it was or with changes"),
    "why": (f"{_PLAYED}.why", "say why an ask waited, or where it was, at a moment of a journal"),
    "fake-rm": (f"{_PLAYED}.fake_rm", "play a resource manager against a running server"),
}
"""Modules and help lines of the commands, by name."""
