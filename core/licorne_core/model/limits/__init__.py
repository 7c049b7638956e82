"""User and group limits (spec § 10): attribution of usage, and its bounds."""
