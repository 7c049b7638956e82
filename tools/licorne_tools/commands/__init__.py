"""`licorne bench`: arguments, progress and tables; `licorne_tools.bench` measures.

`command` chooses among `scenarios`, `growth`, `isolation` and `utilisation`.
"""

COMMANDS = {"bench": ("licorne_tools.commands.command", "measure the core over gRPC")}
"""The command, with its module and its line in the help."""
