"""The items that a server lists, and the operators' actions on them.

Each noun is a module, which has its list call, columns, filters and verbs.
"""
