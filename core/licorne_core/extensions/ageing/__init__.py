"""Ageing: applications are ordered by a priority that rises while their oldest ask waits (spec § 5.2).

The property `ageing` of a leaf sets the gain for each duration, and a maximum (`keys`). The bonus belongs to
the application: it affects its rank in the leaf and, through the leaf's priority, that of the queues above.
The priorities of its asks do not change; preemption compares those.

`terms` has the arithmetic of one ask, and `ages` the pending asks of one application by age. `extension`
updates the bonus: in steps of time, for which each application has one deadline, and with every ask that is
added or removed. `recount` derives all bonuses again.
"""
