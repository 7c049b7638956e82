"""Deciding: which ask goes to which node next (spec § 8)."""
