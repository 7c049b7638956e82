"""The connection of one RM to the server: the three streams of `si.v1`, or the one of a session."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from google.protobuf.message import Message

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as session
from support.wire.items import AppItem, AskItem, ReleaseItem, RemovalItem
from support.wire.ledger import Item
from support.wire.site import OK, Line, Site, Status
from support.wire.talk import Talk
from support.wire.tracks import Violation

NODES, APPLICATIONS, ALLOCATIONS = "nodes", "applications", "allocations"
KINDS = (NODES, APPLICATIONS, ALLOCATIONS)
WHOLE = "session"
"""The name of the one stream of a session."""

METHODS = {
    NODES: "/si.v1.Scheduler/UpdateNode",
    APPLICATIONS: "/si.v1.Scheduler/UpdateApplication",
    ALLOCATIONS: "/si.v1.Scheduler/UpdateAllocation",
}
RESPONSES: dict[str, Any] = {
    NODES: si.NodeResponse,
    APPLICATIONS: si.ApplicationResponse,
    ALLOCATIONS: si.AllocationResponse,
}
SESSION = "/licorne.v1.Session/Update"


def request(kind: str, items: Sequence[Item], rm_id: str) -> Message:
    """The message with these items."""
    match kind:
        case "nodes":
            return si.NodeRequest(rmID=rm_id, nodes=_messages(items))
        case "applications":
            return si.ApplicationRequest(
                rmID=rm_id,
                new=_messages(i for i in items if isinstance(i, AppItem)),
                remove=_messages(i for i in items if isinstance(i, RemovalItem)),
            )
    releases = _messages(i for i in items if isinstance(i, ReleaseItem))
    return si.AllocationRequest(
        rmID=rm_id,
        allocations=_messages(i for i in items if isinstance(i, AskItem)),
        releases=si.AllocationReleasesRequest(allocationsToRelease=releases) if releases else None,
    )


def _messages(items: Any) -> list[Any]:
    return [item.message() for item in items]


class Connection:
    """Open streams, recently lost ones, and the numbers of a session."""

    def __init__(self, site: Site, rm_id: str, write: Callable[[str], None]) -> None:
        """Start closed; `write` gets a line for the script."""
        self.site = site
        self.talk: Talk | None = None
        self.lines: dict[str, Line] = {}
        self.instance = 0
        self._rm_id = rm_id
        self._write = write
        self._fading: list[tuple[str, Line]] = []
        self._stamp = 0

    # ---- Opening ----

    @property
    def is_whole(self) -> bool:
        """True if all streams are open."""
        wanted = 1 if self.talk is not None else len(KINDS)
        return len(self.lines) == wanted and all(line.is_open for line in self.lines.values())

    @property
    def has_session(self) -> bool:
        """True if the RM is served over a session, connected or not."""
        return self.talk is not None

    def forget(self) -> None:
        """Drop all streams, because the RM starts over."""
        for line in self.lines.values():
            self.site.hang_up(line)
        self.lines.clear()
        self._fading.clear()
        self.talk = None

    def open_streams(self) -> Status:
        """Open those of the three streams that are closed; the first message names the RM."""
        for kind in KINDS:
            if kind not in self.lines or not self.lines[kind].is_open:
                line = self.lines[kind] = self.site.open(METHODS[kind])
                line.under_way.append(request(kind, [], self._rm_id).SerializeToString())
                line.arrive()
        self.site.rest()
        return next((line.status for line in self.lines.values() if line.status), OK)

    def open_session(self, config: str, *, is_asked: bool) -> Status:
        """Begin a session as a newer instance."""
        self.instance += 1
        talk = Talk(self._rm_id, self.instance, config, self._stamp, is_asked=is_asked)
        line, welcome = self._greet(talk)
        if welcome is None:
            assert line.status is not None, "neither a welcome nor an end"
            return line.status
        if welcome.welcome.resumed:
            raise Violation("a hello without a token was resumed")
        self.forget()
        self.talk = talk
        self.lines[WHOLE] = line
        self._stamp = talk.begin(welcome)
        return OK

    def resume(self) -> bool:
        """Resume the session over another stream; False if the server registered the RM again instead."""
        assert self.talk is not None, "there is no session to resume"
        line, welcome = self._greet(self.talk)
        if welcome is None:
            raise Violation(f"a session could not be resumed: {line.status}")
        self.lines = {WHOLE: line}
        if not welcome.welcome.resumed:
            self._stamp = self.talk.begin(welcome)
            return False
        line.under_way.extend(self.talk.resume(welcome))
        return True

    def _greet(self, talk: Talk) -> tuple[Line, session.UpdateResponse | None]:
        """Open a stream with a hello; return the welcome, or None if the stream was refused."""
        line = self.begin_with(SESSION, talk.hello())
        if not line.answers:
            self._write(f"says hello as {talk.instance}: {line.status}")
            return line, None
        welcome = session.UpdateResponse.FromString(line.answers.popleft())
        how = "resumed" if welcome.welcome.resumed else "registered anew"
        self._write(f"says hello as {talk.instance}: {how}")
        return line, welcome

    # ---- Lost streams ----

    def cut(self, kind: str, *, deaf_to: int) -> Line | None:
        """Lose a stream, and of a session also its last `deaf_to` unprocessed answers.

        Data still written to a stream of `si.v1` counts as received, and is processed later.
        """
        line = self.lines.pop(kind, None)
        if line is None:
            return None
        self._write(f"loses {kind}")
        self.site.hang_up(line)
        if kind == WHOLE:
            for _ in range(min(deaf_to, len(line.answers))):
                line.answers.pop()
        else:
            self._fading.append((kind, line))
        return line

    def replace_streams(self) -> None:
        """Open the three streams again while the older ones are open; the server ends those."""
        self._fading += self.lines.items()
        self.lines.clear()
        self.open_streams()

    def speaking(self, kind: str) -> Iterator[Line]:
        """The streams of a kind that may have unread answers, the older ones first."""
        for faded, line in self._fading:
            if faded == kind:
                yield line
        if kind in self.lines:
            yield self.lines[kind]

    def answers(self, kind: str, line: Line) -> Iterator[Message]:
        """The answers of a stream about nodes, applications and allocations."""
        while line.answers:
            raw = line.answers.popleft()
            if kind != WHOLE:
                yield RESPONSES[kind].FromString(raw)
                continue
            assert self.talk is not None, "a line of a session without one"
            told = self.talk.hear(raw)
            if told is not None:
                yield told

    # ---- Saying ----

    def send(self, kind: str, message: Message) -> None:
        """Put a request in flight."""
        if self.talk is None:
            self.lines[kind].under_way.append(message.SerializeToString())
        else:
            self.number({kind: message})

    def number(self, message: dict[str, Any]) -> None:
        """Put a request of a session in flight, with the next number."""
        assert self.talk is not None, "only a session numbers"
        self.lines[WHOLE].under_way.append(self.talk.next(message))

    def repeat_number(self) -> None:
        """Send the last request of a session again with its number, which must have no effect."""
        if self.talk is not None and self.talk.kept:
            self._write("> the last request again")
            self.lines[WHOLE].under_way.append(self.talk.kept[-1].SerializeToString())

    def acknowledge(self) -> None:
        """Acknowledge the processed answers, if the stream can."""
        if self.talk is not None and self.is_whole:
            raw = self.talk.acknowledgement()
            if raw is not None:
                self.lines[WHOLE].under_way.append(raw)

    def flow(self, order: Sequence[str], rounds: int | None = None) -> None:
        """Deliver messages in flight, one stream after another, between rounds of the loop."""
        for kind in (*order, WHOLE):
            line = self.lines.get(kind)
            if line is not None and line.under_way:
                line.arrive(len(line.under_way))
                if rounds is None:
                    self.site.loop.rest()
                else:
                    self.site.loop.rounds(rounds)

    def is_quiet(self) -> bool:
        """True if no message is in flight in either direction."""
        return not any(line.under_way or line.answers for line in self.lines.values())

    # ---- Faulty messages ----

    def begin_with(self, method: str, raw: bytes) -> Line:
        """A separate stream that begins with these bytes."""
        line = self.site.open(method)
        line.under_way.append(raw)
        line.arrive()
        self.site.rest()
        return line

    def blurt(self, kind: str, raw: bytes) -> Status | None:
        """Send these bytes, and return the status with which the stream ends; another stream replaces it."""
        line = self.lines.pop(kind if self.talk is None else WHOLE)
        line.under_way.append(raw)
        line.arrive(len(line.under_way))
        self.site.rest()
        if self.talk is None:
            self.open_streams()
        elif not self.resume():
            raise Violation("a session did not outlive what should not have been said")
        return line.status
