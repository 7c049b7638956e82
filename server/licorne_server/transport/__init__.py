"""gRPC over connections of the loop itself, for which the wheel `licorne-transport` has HTTP/2.

grpc.aio has a thread that reads sockets, and gives each message to the loop by itself: 60 to 130 µs of
CPU. Here the loop reads a socket, and gets all messages that have come at once; the responses of a turn
of the loop leave together. `server.LoopTransport` has the methods of `grpc.aio.Server` that services
need, and `call.Call` those of a context, so that handlers and interceptors run on both.

Caller: `assembly/grpc_server.py`, where the wheel is installed. `call` and `aio` are what `rms/` and
`services/` know of it.
"""
