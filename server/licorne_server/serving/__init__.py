"""The composition root: puts a server together, starts it, and stops it in order.

In: settings. Out: a server that listens, inside any event loop (`app.py`).

Caller: `commands/serve.py`, and `testing/` for a server inside another program.
"""
