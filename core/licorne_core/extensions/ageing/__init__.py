"""Ageing: applications are ordered by a priority that rises while their oldest ask waits (spec § 5.2).

A leaf says by its property `ageing` how much is added for each duration, and how much at most (`keys`).
The bonus is of the application as a whole: of its place in the leaf, and through the leaf's priority of
the queues above. The priorities of its asks stay as they are, by which preemption compares.

`terms` has the arithmetic of one ask, and `ages` the pending asks of one application by age. `extension`
takes part in the partition: the bonus follows the time in steps, for which each application has one
deadline, and every ask that comes or goes. `recount` derives all of it anew.
"""
