"""Queues: the tree, its settings, its accounting and its order."""
