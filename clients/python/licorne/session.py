"""Numbers, acknowledgements and resumption of one session: no wire, no loop.

Both sides number what they send from 1 on, across streams, and say how far they have dealt with
the other's. What is not dealt with yet is kept, and sent again when a stream is resumed.
"""

from collections import deque

from licorne.errors import ConnectionLost
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import Callbacks, Goodbye, Hello, UpdateRequest, UpdateResponse

PROTOCOL = 1
Stamp = tuple[int, int]
"""(epoch, session): rises with every start of the server and with every registration."""


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
        """Keep up to `resend` requests for a resumption; `instance` fences lower ones."""
        self._rm_id = rm_id
        self._instance = instance
        self.registration = registration
        self._resend = resend
        self._callbacks = callbacks
        self._token = ""
        self.stamp: Stamp = (0, 0)
        self._sent = 0
        self._processed = 0
        self._lost = 0
        self._received = 0
        self._consumed = 0
        self._acknowledged = 0
        self._kept: deque[UpdateRequest] = deque()

    @property
    def resumable(self) -> bool:
        """Whether the next hello may ask to go on where the stream broke."""
        return bool(self._token) and self._processed >= self._lost

    @property
    def unacknowledged(self) -> int:
        """How many responses have been dealt with and the server has not been told."""
        return self._consumed - self._acknowledged

    def forget(self) -> None:
        """Make the next hello ask for a new session and a replay."""
        self._token = ""

    def hello(self) -> UpdateRequest:
        """What opens a stream."""
        return UpdateRequest(
            hello=Hello(
                rm_id=self._rm_id,
                instance=self._instance,
                protocol=PROTOCOL,
                resume_token=self._token if self.resumable else "",
                acknowledged=self._consumed,
                registration=self.registration,
                callbacks=self._callbacks,
            )
        )

    def welcome(self, response: UpdateResponse) -> list[UpdateRequest] | None:
        """Take up what the server answered to the hello.

        Returns the requests to send again, or None when the session is new and wants a
        replay. Raises ConnectionLost for an answer of the past: of a server that has lost
        its claim to this resource manager.
        """
        stamp = (response.epoch, response.session)
        if stamp < self.stamp:
            raise ConnectionLost(f"the server answers for {stamp}, we are at {self.stamp}")
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
        """Number a request, and keep it until the server has dealt with it."""
        self._sent += 1
        request.number = self._sent
        self._kept.append(request)
        if len(self._kept) > self._resend:
            self._lost = self._kept.popleft().number
        return self.acknowledging(request)

    def acknowledging(self, request: UpdateRequest) -> UpdateRequest:
        """Let a request say how far the responses have been dealt with."""
        self._acknowledged = self._consumed
        request.acknowledged = self._consumed
        return request

    def goodbye(self, *, unregister: bool) -> UpdateRequest:
        """What ends a stream in good order; said once and never repeated."""
        goodbye = self.outgoing(UpdateRequest(goodbye=Goodbye(unregister=unregister)))
        self._kept.remove(goodbye)
        return goodbye

    def accepts(self, response: UpdateResponse) -> bool:
        """Whether a response is news; not so for repeats and for those of an older session.

        Raises ConnectionLost when one is missing before it: only a replay can help then.
        """
        stamp = (response.epoch, response.session)
        if stamp < self.stamp:
            return False
        self.stamp = stamp
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
        """The caller has dealt with all responses up to that number of that session."""
        if stamp == self.stamp and number > self._consumed:
            self._consumed = number

    def _drop_processed(self, number: int) -> None:
        self._processed = max(self._processed, number)
        while self._kept and self._kept[0].number <= number:
            self._kept.popleft()
