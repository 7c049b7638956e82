"""Peers of the server: RMs, operators, and faulty networks."""
