"""The network between a peer and the server, which breaks and freezes on request or at random."""

import asyncio
import random

from licorne_server.testing.proxy import Relay


class Network(Relay):
    """A proxy of one peer that counts the bytes it passes on."""

    def __init__(self, upstream: str, seed: int) -> None:
        """Derive all random numbers from the seed."""
        super().__init__(upstream)
        self._random = random.Random(seed)
        self._between = (0, 0)
        """The minimum and maximum of bytes that a connection may carry before its cut."""
        self._to_come = 0
        """The number of connections that are still to be cut."""
        self._left: int | None = None
        """Bytes until the next cut; None if none is planned."""
        self.cuts = 0
        """The number of cuts since `cut_after`."""
        self._flows = asyncio.Event()
        """Set while the open connections pass data on."""
        self._flows.set()
        self._frozen: list[asyncio.Event] = []
        """The events of the frozen connections."""

    def cut_after(self, fewest: int, most: int, times: int) -> None:
        """Cut connections this number of times, each after a random number of bytes in the range."""
        self._between = (fewest, most)
        self._to_come = times
        self.cuts = 0
        self._draw()

    def calm(self) -> None:
        """Cut no further connections."""
        self._to_come = 0
        self._left = None

    def freeze(self) -> None:
        """Hold back the traffic of the present connections. Later connections are not affected."""
        self._flows.clear()
        self._frozen.append(self._flows)
        self._flows = asyncio.Event()
        self._flows.set()

    def thaw(self) -> None:
        """Pass on the traffic that was held back, unless its connection has broken meanwhile."""
        for flows in self._frozen:
            flows.set()
        self._frozen.clear()

    def _draw(self) -> None:
        self._left = self._random.randint(*self._between) if self._to_come else None

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, towards: str) -> None:
        flows = self._flows
        while data := await reader.read(65536):
            await flows.wait()
            if self._left is not None and len(data) >= self._left:
                writer.write(data[: self._left])
                await writer.drain()
                self._to_come -= 1
                self.cuts += 1
                self._draw()
                raise ConnectionResetError("cut by lot")
            if self._left is not None:
                self._left -= len(data)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side has closed")
