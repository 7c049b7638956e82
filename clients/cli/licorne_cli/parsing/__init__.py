"""The arguments of a line: the parser, types of arguments, and completion by shells.

`completion_spec` reads from the parser what there is to complete, and `completion_scripts` writes
that for each shell.
"""
