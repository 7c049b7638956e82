"""The state of a session of `Session.Update`, which outlives each of its streams."""

import secrets

from licorne.v1.session_pb2 import Callbacks
from licorne_server.wire.errors import invalid_argument
from licorne_server.wire.responses import Kind


class Session:
    """Identity and progress of both sides of a session. A resumed stream goes on from here.

    Requests and responses are numbered from 1, each side on its own.
    """

    instance: int
    """Number of the RM's process: a higher one takes over from a lower one."""
    callbacks: Callbacks
    """Callbacks that the RM opted into in its hello."""
    token: str
    """Secret that entitles its bearer to resume the session."""
    awaits_replay: bool
    """True until the RM's replay ends; nothing of it is scheduled before."""
    received: int
    """Number of the last request that was handled."""
    next_event: int
    """Id of the next event to send to the RM, if it wants events."""

    def __init__(self, instance: int, callbacks: Callbacks | None = None) -> None:
        """Start with no message received or sent."""
        self.instance = instance
        self.callbacks = Callbacks() if callbacks is None else callbacks
        self.token = secrets.token_hex(16)
        self.awaits_replay = True
        self.next_event = 0
        # Numbers of the last request that was read from the open stream, and of the last that was
        # handled; what lies between them waits.
        self._read = 0
        self.received = 0
        self._sent = 0
        # Items refused before the core saw them, since the replay began.
        self._refused: dict[Kind, int] = {}

    @property
    def sent(self) -> int:
        """Number of the last response that was sent."""
        return self._sent

    def next_number(self) -> int:
        """The number of the response that is sent now."""
        self._sent += 1
        return self._sent

    def check_acknowledged(self, number: int) -> None:
        """Refuse an acknowledgement of a message that was not sent.

        Raises:
            CallError: INVALID_ARGUMENT.
        """
        if number > self._sent:
            raise invalid_argument(
                f"response {number} is acknowledged, but {self._sent} were sent", "acknowledged"
            )

    def begin_stream(self) -> None:
        """On a new stream the RM goes on behind the last request that was handled."""
        self._read = self.received

    def note_read(self, number: int) -> bool:
        """Record the read of a request by its number; returns True if it is new.

        One without a number always is.

        Raises:
            CallError: INVALID_ARGUMENT, a request before it is missing.
        """
        if number > self._read + 1:
            raise invalid_argument(
                f"request {number} where {self._read + 1} was expected", "number"
            )
        if 0 < number <= self._read:
            return False
        self._read = number or self._read
        return True

    def handled(self, number: int) -> None:
        """The request of that number, if it has one, was carried out to its end."""
        self.received = number or self.received

    def begin_replay(self) -> None:
        """Count refused items from now on."""
        self._refused.clear()

    def refuse(self, kind: Kind, count: int) -> None:
        """Count items of a request that were refused before the core saw them."""
        self._refused[kind] = self._refused.get(kind, 0) + count

    def refused(self, kind: Kind) -> int:
        """Number of items refused since the replay began."""
        return self._refused.get(kind, 0)
