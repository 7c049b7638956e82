"""Watching an RM's events without end: a watch that breaks, or falls behind, is begun again."""

import time
from collections.abc import Iterator, Sequence

import grpc

from licorne.v1.state_pb2 import Event, ListEventsRequest, WatchEventsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.errors import metadata_of
from licorne_cli.output.text import printable, say

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds between two tries, doubled with each that fails."""

MAY_PASS = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.INTERNAL,
    }
)
"""Statuses after which the watch is tried again.

The server may restart, the RM may have to register again, tracking may be off for a while.
"""


class Follower:
    """The place in one RM's events, kept from one call to the next."""

    def __init__(self, stub: StateStub, target: str, rm_id: str) -> None:
        """`target` is for messages."""
        self._stub = stub
        self._target = target
        self._rm_id = rm_id
        self._instance = ""
        self._next_id = 0
        self._heard = False
        self._pause = 0.0

    def begin(self, start: int | None, timeout: float) -> None:
        """Go on from an id, or from what happens after now."""
        if start is None:
            request = ListEventsRequest(rm_id=self._rm_id, count=1)
            kept = self._stub.ListEvents(request, timeout=timeout)
            self._instance, start = kept.instance, kept.highest_id + 1
        self._next_id = start

    def events(self) -> Iterator[Sequence[Event]]:
        """Events as they happen, without an end; a note on stderr says which were missed.

        Raises:
            RpcError: the first call failed, or nobody knows what to do about it.
        """
        while True:
            request = WatchEventsRequest(
                rm_id=self._rm_id, start=self._next_id, instance=self._instance
            )
            try:
                for answer in self._stub.WatchEvents(request):
                    self._heard, self._pause = True, 0.0
                    self._instance = answer.instance
                    if answer.events:
                        self._next_id = answer.events[-1].id + 1
                        yield answer.events
            except grpc.RpcError as error:
                self._take(error)
            self._pause = min(LONGEST_PAUSE, 2 * self._pause) or FIRST_PAUSE
            time.sleep(self._pause)

    def _take(self, error: grpc.RpcError) -> None:
        """Know where to go on after a call has failed.

        Raises:
            RpcError: it cannot be gone on.
        """
        where = metadata_of(error)
        if "next_id" in where:
            self._move(int(where["next_id"]), where.get("instance", self._instance))
        elif not self._heard or error.code() not in MAY_PASS:
            raise error
        elif not self._pause:
            details = printable(error.details() or error.code().name)
            say(f"licorne: lost {self._target}: {details}; trying again")

    def _move(self, next_id: int, instance: str) -> None:
        if self._instance and instance != self._instance:
            say("licorne: the RM registered anew: ids start over")
        elif next_id > self._next_id:
            say(f"licorne: events {self._next_id} to {next_id - 1} are not kept any more")
        elif next_id < self._next_id:
            say(f"licorne: event {self._next_id} is far from happening: the next is {next_id}")
        self._next_id, self._instance = next_id, instance
