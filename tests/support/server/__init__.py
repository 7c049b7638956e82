"""Servers: in the test's own loop, behind HTTP, or in processes of their own."""
