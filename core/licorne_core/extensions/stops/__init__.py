"""Stops: an operator ends an application; it fails, and its RM is told to stop what runs (spec § 5.1.2)."""
