"""Doing: one module for each family of commands."""
