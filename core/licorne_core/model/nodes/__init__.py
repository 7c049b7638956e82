"""Nodes: capacity, contents and utilization."""
