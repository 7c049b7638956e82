"""The parser and its commands, types of arguments, and completion by shells.

`completion` is the command; `completion_scripts` writes the script of each shell.
"""
