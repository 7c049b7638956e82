"""A server whose messages a test delivers by hand, and RMs that check every answer with a ledger."""
