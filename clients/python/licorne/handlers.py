"""Handlers: a function per kind of event, on top of the plain iterator."""

import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from licorne.client import Client
from licorne.events import Event

E = TypeVar("E", bound=Event)
Handler = Callable[[E], Awaitable[None] | None]


class Handlers:
    """Functions to call for events, plain or async, in the order in which they were added.

    ::

        handlers = Handlers()

        @handlers.on(Allocated)
        async def start(event: Allocated) -> None: ...

        await handlers.run(rm)
    """

    def __init__(self) -> None:
        """Start without handlers."""
        self._handlers: defaultdict[type, list[Handler[Any]]] = defaultdict(list)

    def on(self, kind: type[E]) -> Callable[[Handler[E]], Handler[E]]:
        """Register the decorated function for that kind of event."""

        def register(handler: Handler[E]) -> Handler[E]:
            self._handlers[kind].append(handler)
            return handler

        return register

    async def run(self, client: Client) -> None:
        """Hand every event to its handlers until the client is closed.

        A handler's exception ends the run. The event that it failed on is not acknowledged.
        """
        async for event in client.events():
            for handler in self._handlers[type(event)]:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
