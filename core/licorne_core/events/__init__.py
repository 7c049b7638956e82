"""What can happen, one class for each fact (spec § 12.1).

A fact is a small value. It is made where the thing happens and never changed; its events are made
of it when somebody looks. Times are in unix seconds. Resources must not be running totals, which
would go on changing.
"""
