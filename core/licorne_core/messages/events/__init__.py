"""Events (spec § 12.1): their records, and a function or a fact for each kind of event.

A fact is made where the thing happens, and is never changed. Times are in unix seconds.
"""
