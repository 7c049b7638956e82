"""Nodes: their capacity, what is on them, and how full they are."""
