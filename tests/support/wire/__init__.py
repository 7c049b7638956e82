"""The server's own way from bytes to bytes, moved by hand, and RMs with a ledger of it."""
