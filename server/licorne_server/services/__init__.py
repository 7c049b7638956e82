"""The RPC services, one module each."""
