"""The numbers of one session, as required of an RM (clients/contract.md)."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as session
from licorne_server.wire.framing import delimited
from support.wire.items import AppItem, AskItem, NodeItem
from support.wire.tracks import Violation

EPOCH = 1


class Talk:
    """Sent and received messages by number, and the requests to repeat."""

    def __init__(self, rm_id: str, instance: int, config: str, stamp: int, *, is_asked: bool) -> None:
        """A session before its welcome; `stamp` is the number of the previous session.

        With `is_asked` the RM has predicates. For every other instance a check without an answer counts as
        accepted.
        """
        self.rm_id = rm_id
        self.instance = instance
        self.config = config
        self.kept: deque[session.UpdateRequest] = deque()
        self.replayed: dict[str, int] | None = None
        self.expects_complete: list[bool] = []
        self.checks: deque[session.PredicateCheck] = deque()
        # The last check of each application and key.
        self._newest: dict[tuple[str, str], int] = {}
        self.callbacks = session.Callbacks()
        if is_asked:
            modes = (session.FAIL_CLOSED, session.FAIL_OPEN)
            self.callbacks.predicates.fail_mode = modes[instance % 2]
        self._token = ""
        self._stamp = stamp
        self._sent = 0
        self._received = 0
        self._acknowledged = 0
        self._told = 0
        self._checked = 0
        # Checks up to this one may have missed their deadline; while `_time_passes`, all may have.
        self._run_out = 0
        self._time_passes = False

    def hello(self) -> bytes:
        """The first message of a stream."""
        hello = session.Hello(
            rm_id=self.rm_id,
            instance=self.instance,
            protocol=1,
            resume_token=self._token,
            acknowledged=self._received if self._token else 0,
            callbacks=self.callbacks,
            registration=si.RegisterResourceManagerRequest(config=self.config),
        )
        return session.UpdateRequest(hello=hello).SerializeToString()

    def begin(self, welcome: session.UpdateResponse) -> int:
        """Start numbers over after a registration; return the number of the session."""
        if welcome.session <= self._stamp or welcome.epoch != EPOCH:
            raise Violation(f"session {welcome.session} follows session {self._stamp}")
        self._stamp = welcome.session
        self._token = welcome.welcome.resume_token
        self._sent = self._received = self._acknowledged = self._told = self._checked = 0
        self._run_out, self._time_passes = 0, False
        self.kept.clear()
        self.checks.clear()
        self._newest.clear()
        self.expects_complete.clear()
        # A new session waits for a replay, which the server does not know to have begun.
        self.replayed = dict.fromkeys(("nodes", "applications", "allocations"), 0)
        return self._stamp

    def resume(self, welcome: session.UpdateResponse) -> list[bytes]:
        """The session is resumed: return the messages to repeat."""
        self._look_at(welcome)
        self._told = self._received
        return [kept.SerializeToString() for kept in self.kept]

    def next(self, message: dict[str, Any]) -> bytes:
        """Number another request, and keep it until the server has processed it."""
        self._sent += 1
        self._told = self._received
        wanted = session.UpdateRequest(number=self._sent, acknowledged=self._received, **message)
        self.kept.append(wanted)
        return wanted.SerializeToString()

    def sealed(self, kind: str, payload: bytes, skipped: int) -> bytes:
        """Bytes as a request with the next number plus `skipped`; it is not kept."""
        field = session.UpdateRequest.DESCRIPTOR.fields_by_name[kind].number
        number = session.UpdateRequest(number=self._sent + 1 + skipped)
        return number.SerializeToString() + delimited(field, payload)

    def acknowledgement(self) -> bytes | None:
        """The acknowledgement of processed responses, or None if it was sent already."""
        if self._told == self._received:
            return None
        self._told = self._received
        ack = session.UpdateRequest(acknowledged=self._received, ack=session.Ack())
        return ack.SerializeToString()

    def hear(self, raw: bytes) -> Message | None:
        """The parts of a response about nodes, applications and allocations.

        S2: responses are numbered without a gap, and acknowledge only sent requests.
        """
        response = session.UpdateResponse.FromString(raw)
        self._look_at(response)
        kind = response.WhichOneof("message")
        if not response.number:
            return None
        if response.number != self._received + 1:
            raise Violation(f"S2: response {response.number} follows response {self._received}")
        self._received = response.number
        match kind:
            case "nodes" | "applications" | "allocations":
                told: Message = getattr(response, kind)
                return told
            case "predicate_checks" if self.is_asked:
                self._take_checks(response.predicate_checks)
                return response.predicate_checks
            case "replay_result":
                self._check_result(response.replay_result)
            case _:
                raise Violation(f"nobody asked for {kind}")
        return None

    def _take_checks(self, asked: session.PredicateChecks) -> None:
        """Queue checks in the order in which they are to be answered."""
        for check in asked.checks:
            if check.id <= self._checked:
                raise Violation(f"check {check.id} follows check {self._checked}")
            self._checked = check.id
            self.checks.append(check)
            self._newest[check.application_id, check.allocation_key] = check.id

    def pass_time(self) -> None:
        """Note that checks, received or not, may miss their deadline from now on."""
        self._time_passes = True

    def settle(self) -> None:
        """Note that all messages were received: later checks are sent after that time."""
        if self._time_passes:
            self._run_out = self._checked
            self._time_passes = False

    def counts(self, check: session.PredicateCheck) -> bool:
        """True if an answer to the check determines the state of its ask.

        That is not so if the deadline may have passed, or if a newer check is about the same ask.
        """
        may_be_too_late = self._time_passes or check.id <= self._run_out
        newest = self._newest[check.application_id, check.allocation_key] == check.id
        return newest and not (self.lets_pass and may_be_too_late)

    def _look_at(self, response: session.UpdateResponse) -> None:
        """H1: the answer belongs to this session; S2: acknowledgements only rise."""
        if (response.epoch, response.session) != (EPOCH, self._stamp):
            raise Violation(f"{response.epoch}/{response.session} in session {self._stamp}")
        if not self._acknowledged <= response.acknowledged <= self._sent:
            raise Violation(
                f"S2: {response.acknowledged} is acknowledged after {self._acknowledged}, "
                f"and {self._sent} were sent"
            )
        self._acknowledged = response.acknowledged
        while self.kept and self.kept[0].number <= self._acknowledged:
            self.kept.popleft()

    def _check_result(self, result: session.ReplayResult) -> None:
        expected = self.expects_complete.pop(0) if self.expects_complete else None
        if expected is not result.complete:
            raise Violation(f"replay complete: {result.complete}, not {expected}: {result.reason}")

    @property
    def is_asked(self) -> bool:
        """True if a placement needs the RM's agreement or a missed deadline."""
        return self.callbacks.HasField("predicates")

    @property
    def lets_pass(self) -> bool:
        """True if a missing answer counts as acceptance."""
        return self.callbacks.predicates.fail_mode == session.FAIL_OPEN

    # ---- Replays ----

    def begin_replay(self) -> None:
        """Start to count replayed items."""
        self.replayed = dict.fromkeys(("nodes", "applications", "allocations"), 0)

    def count(self, kind: str, items: Sequence[object]) -> None:
        """Count the items for the end of a replay."""
        if self.replayed is not None:
            counted = [i for i in items if isinstance(i, NodeItem | AppItem | AskItem)]
            self.replayed[kind] += len(counted)

    def end_replay(self, *, miscounted: bool) -> session.ReplayEnd:
        """The end of a replay, which is not complete if it was not begun or is miscounted."""
        counts = self.replayed
        self.replayed = None
        self.expects_complete.append(counts is not None and not miscounted)
        counts = counts or {}
        return session.ReplayEnd(
            nodes=counts.get("nodes", 0) + miscounted,
            applications=counts.get("applications", 0),
            allocations=counts.get("allocations", 0),
        )
