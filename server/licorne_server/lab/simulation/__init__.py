"""The core in virtual time: what was recorded, or a workload, without waiting for it.

Input: recorded commands (`journal`), or the jobs of a trace. Output: effects, `Measures` of what came
of them, and a `report`. Callers: the commands `replay`, `why` and `simulate`.

`player.py` hands commands to a core as the engine does, with time as an argument. `measures.py`
watches it. Nothing here reads a clock or has an event loop.
"""
