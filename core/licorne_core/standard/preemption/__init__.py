"""Preemption: running allocations are stopped for asks below a guarantee, or bound to a node (spec § 9)."""
