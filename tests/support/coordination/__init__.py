"""Stores that members share, real ones in processes and a model in virtual time, and their members."""
