"""gRPC over connections of the event loop, with HTTP/2 from the wheel `licorne-transport`.

grpc.aio has a thread that reads sockets, and passes each message to the loop separately: 60 to 130 µs of CPU.
Here the loop reads a socket, and gets all received messages at once; the responses of a round of the loop are
sent together. `server.LoopTransport` has the methods of `grpc.aio.Server` that services need, and `call.Call`
those of a context, so that handlers and interceptors work with both.

Caller: `assembly/grpc_server.py`, if the wheel is installed.
"""
