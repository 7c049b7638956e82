"""What can happen, one class for each fact (spec § 12.1): values only, expanded when someone looks.

A fact is made where the thing happens and never changed afterwards. Times are in unix seconds,
resources are those of the thing itself and must not be books that go on changing.
"""
