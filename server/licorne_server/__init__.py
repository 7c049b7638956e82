"""The service: the core behind gRPC and HTTP, and the commands that run it here."""

# Before anything that loads gRPC.
from licorne_server.process import grpc_forks as grpc_forks
