"""State that outlives a server: configurations, marks of operators, and the shared state of members.

`documents/` is the interface of all storage, in a directory of the server or in a store of members.
`coordination/` has the members, the owners of RMs and their stores, `configurations/` the stored state of
each RM: the revisions of its configuration, operators' marks, and usage.

Callers: `rms/` and all packages above it.
"""
