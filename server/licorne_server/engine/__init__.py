"""The engine: the one task that owns the core, its inbox and its clock.

In: commands from `rms/` and `services/`. Out: effects, routed to RMs, events and readers. A round is
bounded by time, and the RMs take turns. `copies.py` answers what-if questions
on a copy of the core, and `audits.py` checks the books from time to time.

Callers submit all commands through `Engine.submit`; only readers of reports call the core directly.
"""
