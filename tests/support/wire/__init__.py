"""The server's own way from bytes to bytes, moved by hand, and RMs that keep a ledger of it."""
