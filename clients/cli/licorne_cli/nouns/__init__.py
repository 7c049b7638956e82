"""The items that a server lists, and the operators' actions on them.

Each noun is a module with the list call, the columns, the filters and the verbs.
"""
