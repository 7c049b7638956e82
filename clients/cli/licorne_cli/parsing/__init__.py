"""The arguments of a line: the parser and its commands, types of arguments, and completion by shells.

`completion` is the command, and `completion_scripts` writes what there is to complete for each shell.
"""
