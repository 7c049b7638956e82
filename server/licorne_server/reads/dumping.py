"""State dumps, as callers of gRPC and of HTTP get them."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class DumpInProgress(Exception):
    """Another caller receives a dump."""

    def __init__(self) -> None:
        """Make the error with its fixed reason."""
        super().__init__("a state dump is being sent already")


class Dumps(Protocol):
    """Makes dumps, one at a time."""

    def dump(
        self, rm_id: str, peer: str, *, alone: bool = False
    ) -> AbstractAsyncContextManager[AsyncGenerator[bytes, None]]:
        """The dump of all RMs, or of one, in chunks of UTF-8 that are made while they are read.

        The dump of all RMs has those of all other members, unless this one's is wanted `alone`.

        Raises:
            DumpInProgress: another caller receives a dump.
            NotFound: the RM is not registered.
        """
        ...
