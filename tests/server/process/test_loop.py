"""The server's event loop: grpc.aio's wake-up socket is kept from filling (ecosystem § 1.2)."""

import asyncio
import socket

import grpc

from licorne_server.process.loop import ServerLoop


class _Poller:
    """Stands for grpc.aio's side: one byte is taken, whatever the number of events."""

    def __init__(self, wakes: socket.socket) -> None:
        self.wakes = wakes
        self.served = 0
        self.done = asyncio.Event()

    def _handle_events(self) -> None:
        self.wakes.recv(1)
        self.served += 1
        self.done.set()


def test_all_wake_ups_are_taken_at_once() -> None:
    """However many bytes came while the loop was busy, they cost one round."""

    async def run() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        poller = _Poller(near)
        asyncio.get_running_loop().add_reader(near, poller._handle_events)
        for _ in range(5):
            for _ in range(200):
                far.send(b"x")
            await poller.done.wait()
            poller.done.clear()
        assert poller.served == 5
        asyncio.get_running_loop().remove_reader(near)
        near.close()
        far.close()

    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        runner.run(run())


def test_the_handler_of_grpc_is_recognized() -> None:
    """With this release of grpcio the mend takes hold, and a server on the loop works."""
    recognized: list[object] = []

    class Watched(ServerLoop):
        def _add_reader(self, fd: object, callback: object, *args: object) -> object:
            recognized.append(getattr(callback, "__name__", ""))
            return super()._add_reader(fd, callback, *args)  # type: ignore[misc]

    async def run() -> None:
        server = grpc.aio.server()
        server.add_insecure_port("127.0.0.1:0")
        await server.start()
        await server.stop(0)

    with asyncio.Runner(loop_factory=Watched) as runner:
        runner.run(run())
    assert "_serve_drained" in recognized
