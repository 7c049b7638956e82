"""The service: the core behind gRPC and HTTP, and the `licorne` command."""

# Before anything that loads gRPC.
from licorne_server.process import grpc_forks as grpc_forks
