"""Exit codes of the commands. `docs/commands.md` has the same table, for people."""

OK = 0
USAGE = 1
"""The arguments make no sense, a file that they name cannot be used, or stdout takes no more."""
UNREACHABLE = 2
NOT_FOUND = 3
REFUSED = 4
INTERRUPTED = 130
