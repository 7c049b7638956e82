"""Stores that members share: real ones in processes, and a model on virtual time. Their members."""
