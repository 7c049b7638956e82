"""What waits to be sent, with a bound for those who produce it."""

import asyncio
from collections import deque

from licorne.packer import Packer
from licorne.v1.session_pb2 import UpdateRequest


class Outgoing:
    """The requests of the session that are not sent yet.

    Closed while there is no session: then the cache has it all, and the replay will send it.
    Open and paused while a lost stream can still be resumed.
    """

    def __init__(self, limit: int) -> None:
        """At most about `limit` items wait."""
        self.packer = Packer()
        self._answers: deque[UpdateRequest] = deque()
        self._limit = limit
        self.is_open = self.streaming = False
        self._room = asyncio.Event()
        self._room.set()

    def open(self, max_items: int) -> None:
        """A stream is there that takes so many items per request."""
        self.packer.max_items = max_items
        self.is_open = self.streaming = True

    def pause(self, *, resumable: bool) -> None:
        """The stream is gone."""
        self.streaming = False
        self._room.set()
        if not resumable:
            self.close()

    def close(self) -> None:
        """The session is gone, and what waits for it."""
        self.clear()
        self.is_open = self.streaming = False
        self._room.set()

    def clear(self) -> None:
        """Forget what waits."""
        self.packer.clear()
        self._answers.clear()

    def answer(self, request: UpdateRequest) -> None:
        """Send this before all else: somebody waits for it, and it depends on nothing."""
        self._answers.append(request)

    def next(self) -> UpdateRequest | None:
        """Take off what is to be sent next, if there is anything."""
        if self._answers:
            return self._answers.popleft()
        request = self.packer.take()
        if self.packer.items < self._limit:
            self._room.set()
        return request

    async def room(self) -> bool:
        """Wait while too much waits. False: it is too much, and there is no stream to wait for."""
        if self.packer.items < self._limit:
            return True
        if not self.streaming:
            return False
        self._room.clear()
        await self._room.wait()
        return True
