"""The things that a server tells of, and what an operator does to them.

Each noun is a module with the list call, the columns, the filters and the verbs.
"""
