"""A channel whose calls carry a bearer token."""

from collections.abc import Callable
from functools import partial
from typing import Any

import grpc


class Bearing:
    """Stands for a channel wherever one makes calls."""

    def __init__(self, channel: grpc.aio.Channel, *values: str) -> None:
        """Send each of these values as `authorization`."""
        self._channel: Any = channel
        self._metadata = tuple(("authorization", value) for value in values)

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        """What makes calls of a kind, such as `unary_unary`."""

        def multicallable(*args: Any, **options: Any) -> Any:
            call = getattr(self._channel, kind)(*args, **options)
            return partial(call, metadata=self._metadata)

        return multicallable
