"""The engine: the one task that owns the core, its inbox and its clock.

In: commands from `rms/` and `services/`. Out: effects, routed to RMs, events and readers. A round is
bounded by time, and turns go round the RMs. `copies.py` answers questions about what would happen
on a copy of the core, and `audits.py` adds the books up from time to time.

Caller: all commands come through `Engine.submit`; only readers of views call the core directly.
"""
