"""Numbers, acknowledgements and resumption of one session, without access to a stream; and a client's counts.

Both sides number their messages from 1, across all streams of a session. Each side acknowledges the number of
its peer's last message that it has processed. A request is retained until the server has processed it, and is
sent again when the session is resumed.
"""

from collections import deque
from dataclasses import dataclass

from licorne.errors import ConnectionLost
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import Callbacks, Goodbye, Hello, UpdateRequest, UpdateResponse

PROTOCOL = 1
Stamp = tuple[int, int]
"""Epoch and session: the epoch rises with every start of the server, the session with every registration.
Stamps are compared as pairs."""


class Session:
    """One resource manager's side of its session."""

    def __init__(
        self,
        rm_id: str,
        instance: int,
        registration: si.RegisterResourceManagerRequest,
        *,
        resend: int,
        callbacks: Callbacks | None = None,
    ) -> None:
        """Retain up to `resend` requests for a resumption. The server refuses instances below `instance`."""
        self._rm_id = rm_id
        self._instance = instance
        self.registration = registration
        """The RM's registration in the hello. The server ignores it if the session is resumed."""
        self._resend = resend
        self._callbacks = callbacks
        self._token = ""
        """The token of the last welcome; empty if the next hello must not request a resumption."""
        self._given_up = False
        """True if the session was given up while a hello requested its resumption."""
        self.stamp: Stamp = (0, 0)
        """Epoch and session of the last response."""
        self._sent = 0
        """Number of the last request that was sent."""
        self._processed = 0
        """Number of the last request that the server has processed."""
        self._lost = 0
        """Number of the last request that was dropped unprocessed, because too many were retained."""
        self._received = 0
        """Number of the last response that was read."""
        self._consumed = 0
        """Number of the last response that the caller has processed."""
        self._acknowledged = 0
        """Number of the last response that the client has acknowledged."""
        self._kept: deque[UpdateRequest] = deque()
        """The requests that were sent but not processed, the oldest first."""

    @property
    def resumable(self) -> bool:
        """True if the next hello may ask the server to resume the session."""
        return bool(self._token) and self._processed >= self._lost

    @property
    def processed(self) -> int:
        """Number of the last request that the server has processed."""
        return self._processed

    @property
    def sent(self) -> int:
        """Number of the last request that was sent."""
        return self._sent

    @property
    def unprocessed(self) -> int:
        """Number of sent requests that the server has not acknowledged."""
        return self._sent - self._processed

    @property
    def dealt_with(self) -> int:
        """Number of the last response that the caller has processed."""
        return self._consumed

    @property
    def unacknowledged(self) -> int:
        """Number of responses that the caller has processed and the client has not acknowledged."""
        return self._consumed - self._acknowledged

    def forget(self) -> None:
        """Make the next hello request a new session, which needs a replay."""
        self._token = ""
        self._given_up = True

    def hello(self) -> UpdateRequest:
        """The first request of a stream."""
        self._given_up = False
        return UpdateRequest(
            hello=Hello(
                rm_id=self._rm_id,
                instance=self._instance,
                protocol=PROTOCOL,
                resume_token=self._token if self.resumable else "",
                acknowledged=self._consumed,
                registration=self.registration,
                callbacks=self._callbacks,
                epoch=self.stamp[0],
            )
        )

    def welcome(self, response: UpdateResponse) -> list[UpdateRequest] | None:
        """Process the server's answer to the hello.

        Returns the requests to send again if the session is resumed, or None if it is new and needs a replay.
        Raises ConnectionLost for a stamp below the last one: its sender no longer owns this resource manager.
        Also raises it if the session is resumed but was given up after the hello: then its queued requests
        were dropped, and a replay is needed.
        """
        stamp = (response.epoch, response.session)
        if stamp < self.stamp:
            raise ConnectionLost(f"the server answers for {stamp}, we are at {self.stamp}")
        if response.welcome.resumed and self._given_up:
            raise ConnectionLost("the server resumed a session that was given up meanwhile")
        if response.welcome.resumed:
            self._check_acknowledged(response.acknowledged)
        self.stamp = stamp
        self._token = response.welcome.resume_token
        if response.welcome.resumed:
            self._drop_processed(response.acknowledged)
            self._acknowledged = self._consumed
            self._sent = self._kept[-1].number if self._kept else response.acknowledged
            return list(self._kept)
        self._sent = self._processed = self._lost = 0
        self._received = self._consumed = self._acknowledged = 0
        self._kept.clear()
        return None

    def outgoing(self, request: UpdateRequest) -> UpdateRequest:
        """Number a request, and retain it until the server has processed it."""
        self._sent += 1
        request.number = self._sent
        self._kept.append(request)
        if len(self._kept) > self._resend:
            self._lost = self._kept.popleft().number
        return self.acknowledging(request)

    def acknowledging(self, request: UpdateRequest) -> UpdateRequest:
        """Add to a request the number of the last response that the caller has processed."""
        self._acknowledged = self._consumed
        request.acknowledged = self._consumed
        return request

    def goodbye(self, *, unregister: bool) -> UpdateRequest:
        """The goodbye, numbered; it is not retained, so it is never sent again."""
        goodbye = self.outgoing(UpdateRequest(goodbye=Goodbye(unregister=unregister)))
        self._kept.remove(goodbye)
        return goodbye

    def accepts(self, response: UpdateResponse) -> bool:
        """True if a response should be applied: it is neither a repetition nor from an older session.

        Raises ConnectionLost if the response before it is missing, or if it acknowledges a request that was
        never sent. Then the next hello requests a new session, because only a replay restores the state. Also
        raises ConnectionLost for a stamp above that of the welcome, which no server sends: the response was
        corrupted on its way, and is repeated when the session is resumed.
        """
        stamp = (response.epoch, response.session)
        if stamp < self.stamp:
            return False
        if stamp > self.stamp:
            raise ConnectionLost(f"a response is for {stamp}, its stream is for {self.stamp}")
        self._check_acknowledged(response.acknowledged)
        self._drop_processed(response.acknowledged)
        if not response.number:
            return True
        if response.number > self._received + 1:
            self.forget()
            raise ConnectionLost(
                f"response {response.number} follows response {self._received}: some are lost"
            )
        if response.number <= self._received:
            return False
        self._received = response.number
        return True

    def consumed(self, stamp: Stamp, number: int) -> None:
        """Record that the caller has processed the responses of a session up to this number."""
        if stamp == self.stamp and number > self._consumed:
            self._consumed = number

    def _check_acknowledged(self, number: int) -> None:
        if number > self._sent:
            self.forget()
            raise ConnectionLost(f"request {number} is acknowledged, but {self._sent} were sent")

    def _drop_processed(self, number: int) -> None:
        self._processed = max(self._processed, number)
        while self._kept and self._kept[0].number <= number:
            self._kept.popleft()


@dataclass(slots=True)
class Stats:
    """Counts since the client was created."""

    streams: int = 0
    """Number of opened streams, including those without a welcome."""
    welcomed: int = 0
    """Number of streams that a server has welcomed, to a new or a resumed session."""
    resumed: int = 0
    """Number of sessions that were resumed."""
    replayed: int = 0
    """Number of completed replays, including the first."""
    unanswered: int = 0
    """Number of checks, of nodes or victims, for which the function failed or took too long."""
