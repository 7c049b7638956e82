"""What a server knows of its process: settings, clock, memory, and the interpreter's own settings.

In: arguments and the machine. Out: checked settings, the time, and how much memory is left.
`settings.py` is what a server is started with, `clock.py` its one source of time, `memory.py` refuses
work before the kernel ends the process, and `slow_steps.py` counts steps that kept everybody waiting.

Caller: everybody. Imports no other room.
"""
