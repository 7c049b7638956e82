"""Predicate checks: questions to an RM about nodes and victims, and its answers.

In: asks that may go to a node, answers of the RM, and the end of its time. Out: questions as
effects, and results that the search for nodes respects. `open_calls.py` numbers the questions.

Caller: `handlers/predicates.py`, `handlers/preemption.py`, and the search for a node.
"""
