"""The service: the core behind gRPC and HTTP, and the `licorne` command."""
