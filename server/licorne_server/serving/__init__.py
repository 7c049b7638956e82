"""The composition root: puts a server together, starts it, and stops it in order.

In: settings, and signals. Out: a server that listens, and an exit code. `app.py` is the server
inside any event loop, `serve.py` is `licorne serve`, and `watchdog.py` detects stalls from a thread
of its own.

Caller: `commands/serve/`, and `testing/` for a server inside another program.
"""
