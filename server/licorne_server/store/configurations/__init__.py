"""The configurations of RMs: the one in force, its source, and the earlier ones.

A configuration applied by an operator or a rollback stays in force until it is replaced. The text
of an RM's registration replaces it only if the RM sent a different text before. If an applied
configuration has become unusable when its RM registers, the RM's own text comes into force instead.
"""
