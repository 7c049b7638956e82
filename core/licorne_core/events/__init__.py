"""Facts of events, one class for each (spec § 12.1).

A fact is a small, immutable value. It is made where the thing happens; its events are made of it
when they are read. Times are in unix seconds. Resources must not be running totals, which would go
on changing.
"""
