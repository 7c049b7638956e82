"""gRPC over connections of the loop itself, for which the wheel `licorne-transport` has HTTP/2.

grpc.aio has a thread that reads sockets, and gives each message to the loop by itself: 60 to 130 µs of
CPU. Here the loop reads a socket, and gets all messages that have come at once; the responses of a turn
of the loop leave together. `server.LoopTransport` has the methods of `grpc.aio.Server` that services
need, and `call.Call` those of a context, so that handlers and interceptors run on both.

Caller: `services/grpc_server.py`, where the wheel is installed.
"""

from importlib.util import find_spec

AUTO, GRPC, LOOP = TRANSPORTS = ("auto", "grpc", "loop")
"""Values of the setting."""


def served_by(setting: str) -> str:
    """What serves gRPC: what the setting names, or `GRPC` if that is not installed."""
    return LOOP if setting != GRPC and find_spec("licorne_transport") is not None else GRPC
