"""Events (spec § 12.1): their records, and a function or a fact for each kind of event.

A fact is created at the place of the change, and is immutable. Times are in unix seconds.
"""
