"""Stops: an operator ends an application; it fails, and its RM is asked to stop its allocations (§ 5.1.2)."""
