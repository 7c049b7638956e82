"""Applications: their states, their asks and their allocations."""
