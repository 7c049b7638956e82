"""The server's process: settings, clock, memory, event loop, and the interpreter's own settings.

In: arguments and the machine. Out: checked settings, the time, and the memory left. `settings.py`
has the server's settings, `bounds.py` those of peers and RMs, `clock.py` is its one source of time.
`memory.py` refuses work before the kernel ends the process, `loop.py` has the event loop and what
may block it, `fair.py` has peers take turns in it, and `watchdog.py` detects stalls from a thread.

Caller: every room. Imports `wire/` alone: its errors and caps.
"""
