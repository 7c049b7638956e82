"""What outlives a server: configurations and marks of operators, and what members share.

`coordination/` has the members, the owners of RMs and the stores that they share, `configurations/` the
revisions of each RM's configuration, in a directory of the server or in such a store.

Callers: `rms/` and all above.
"""
