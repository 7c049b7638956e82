"""The configurations of RMs: the configuration in force, its source, and earlier ones.

A configuration applied by an operator or a rollback stays in force until it is replaced. The text of an RM's
registration replaces it only if it differs from the text that the RM sent before. If an applied configuration
has become unusable when its RM registers, the RM's own text comes into force instead.
"""
