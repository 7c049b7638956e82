"""Streams opened by a caller's rights, which end when these are revoked.

A caller is checked once, when it opens a stream. So the stream records the rights it needed, and is
checked again whenever rights have been withdrawn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from licorne_server.wire.errors import CallError, permission_denied, unauthenticated

C = TypeVar("C")

WHY = "the tokens were read again"


class Opening(Generic[C]):
    """One stream that is open; `C` is the kind of its caller."""

    end: Callable[[CallError], None]
    """Ends the stream with an error."""

    def __init__(self, end: Callable[[CallError], None]) -> None:
        """Record no right yet: the identity alone was needed."""
        self.end = end
        self._needed: set[tuple[Callable[[C, str], str], str]] = set()

    def needs(self, right: Callable[[C, str], str], subject: str) -> None:
        """Its caller needs a right to a subject, such as an RM.

        `right` says why a caller has it not, and nothing of one that has it.
        """
        self._needed.add((right, subject))

    def problem(self, caller: C | None) -> CallError | None:
        """The reason to end it, given its caller's present rights; None if it can stay open."""
        if caller is None:
            return unauthenticated(f"the token that opened this does not count any more: {WHY}")
        for right, subject in self._needed:
            denied = right(caller, subject)
            if denied:
                return permission_denied(f"this token {denied} any more: {WHY}")
        return None


class Openings(Generic[C]):
    """All streams that are open, by the peer that has opened them."""

    def __init__(self) -> None:
        """Start without open streams."""
        self._open: dict[str, set[Opening[C]]] = {}

    @contextmanager
    def of(self, peer: str, end: Callable[[CallError], None]) -> Iterator[Opening[C]]:
        """Register a stream of the peer inside the block."""
        opening = Opening[C](end)
        opened = self._open.setdefault(peer, set())
        opened.add(opening)
        try:
            yield opening
        finally:
            opened.discard(opening)
            if not opened:
                self._open.pop(peer, None)

    def review(self, peer: str, caller: C | None) -> int:
        """End the streams of a peer that its rights no longer allow; returns their number."""
        ended = 0
        for opening in tuple(self._open.get(peer, ())):
            problem = opening.problem(caller)
            if problem is not None:
                opening.end(problem)
                ended += 1
        return ended
