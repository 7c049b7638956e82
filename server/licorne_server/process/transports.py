"""What can serve gRPC: the library's own server, or connections of the loop itself."""

from importlib.util import find_spec

AUTO, GRPC, LOOP = TRANSPORTS = ("auto", "grpc", "loop")
"""Values of the setting."""


def served_by(setting: str) -> str:
    """What serves gRPC: what the setting names, or `GRPC` if that is not installed."""
    return LOOP if setting != GRPC and find_spec("licorne_transport") is not None else GRPC
