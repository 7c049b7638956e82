"""User and group limits (spec § 10): whose usage counts where, and what it is bound by."""
