"""Our own page at ``/ui``: live queue trees of all RMs, lists, and explanations of asks.

The page reads, and acts through `acts.py`. Its live part is sent as server-sent events from one `Feed`, which
reads the state once for all viewers, and only while there are any. All other data is read in pages, on
demand. Everything is made in time slices (`process/fair.py`).
"""
