"""Our own page at ``/ui``: live queue trees of all RMs, lists, and why an ask waits.

The page only reads. What it shows live comes as server-sent events from one `Feed`, which looks
once for all viewers, and only while there are any. All else is read in pages, when somebody looks
at it. Everything is made in time slices (`fair.py`).
"""
