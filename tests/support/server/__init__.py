"""Servers: in the test's own loop, over HTTP, or in processes of their own."""
