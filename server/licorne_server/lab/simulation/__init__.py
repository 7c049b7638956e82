"""The core in virtual time: replays a journal, or plays a workload, without waiting.

Input: recorded commands (`journal`), or the jobs of a trace. Output: effects, `Measures` of
them, and a `report`. Callers: the commands `replay`, `why` and `simulate`.

`player.py` passes commands to a core like the engine, with time as an argument. `measures.py`
watches it. This room reads no clock and has no event loop.
"""
