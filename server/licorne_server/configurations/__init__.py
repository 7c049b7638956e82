"""The configurations of RMs: the one in force, its source, and the earlier ones.

An applied configuration, by an operator or a rollback, stays in force until another one comes. The
text that an RM registers with counts as another one only if it differs from the text that the RM
sent before. An applied configuration that has become unusable when its RM registers does not keep
the RM out: the RM's own text comes into force instead.
"""
