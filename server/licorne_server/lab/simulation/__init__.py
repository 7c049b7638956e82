"""The core in virtual time: replays a journal, or plays a workload, without waiting.

Input: recorded commands (`journal`), or the jobs of a trace. Output: effects, their `Measures`, and a
`report`. Callers: the commands `replay`, `why` and `simulate`.

`player.py` passes commands to a core like the engine, with time as an argument. `measures.py` watches it.
This package reads no clock and has no event loop.
"""
