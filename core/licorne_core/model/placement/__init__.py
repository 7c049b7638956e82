"""Placement: from an application to the leaf queue that it goes to (spec § 3)."""
