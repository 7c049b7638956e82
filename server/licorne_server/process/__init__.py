"""The server's process: settings, clock, memory, event loop, and the interpreter's own settings.

In: arguments and the state of the machine. Out: checked settings, the time, and the memory left.
`settings.py` has the server's settings, `bounds.py` the bounds of peers and RMs. `clock.py` is the only
source of time. `memory.py` refuses work before the kernel ends the process. `loop.py` has the event loop, its
slow steps and garbage collection, and `fair.py` the turns of peers in the loop, and reads of long lists in
time slices. `watchdog.py` detects stalls from a separate thread. `lost_lines.py` counts lines that could not
be logged, and `coordination.py` has the options of members that share the RMs.

Callers: every package of the server but `wire/`. It imports only errors and caps of `wire/`.
"""
