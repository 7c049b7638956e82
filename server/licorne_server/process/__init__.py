"""The server's process: settings, clock, memory, and the interpreter's own settings.

In: arguments and the machine. Out: checked settings, the time, and the memory left. `settings.py`
has the server's settings, `clock.py` is its one source of time, `memory.py` refuses work before the
kernel ends the process, and `slow_steps.py` counts steps that blocked the loop.

Caller: every room. Imports no other room.
"""
