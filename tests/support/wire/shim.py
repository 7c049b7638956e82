"""An RM's side of the wire: over the three streams of `si.v1`, or over one `Session`.

It writes what it says and hears into its ledger and into a script for whoever reads a failure.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import grpc
from google.protobuf.message import Message

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as admin
from licorne.v1 import session_pb2 as session
from support.wire.configs import GOOD, Config
from support.wire.items import AppItem, AskItem, ReleaseItem, RemovalItem
from support.wire.ledger import Item, Ledger
from support.wire.site import OK, Line, Site, Status
from support.wire.talk import Talk
from support.wire.tracks import Violation

NODES, APPLICATIONS, ALLOCATIONS = "nodes", "applications", "allocations"
KINDS = (NODES, APPLICATIONS, ALLOCATIONS)
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
REGISTER = "/si.v1.Scheduler/RegisterResourceManager"
SESSION = "/licorne.v1.Session/Update"
CONFIGURE = "/licorne.v1.Admin/UpdateConfiguration"
WHOLE = "session"
"""The one line of a session."""


def request(kind: str, items: Sequence[Item], rm_id: str) -> Any:
    """The message that says these things."""
    match kind:
        case "nodes":
            return si.NodeRequest(rmID=rm_id, nodes=[_message(i) for i in items])
        case "applications":
            return si.ApplicationRequest(
                rmID=rm_id,
                new=[_message(i) for i in items if isinstance(i, AppItem)],
                remove=[_message(i) for i in items if isinstance(i, RemovalItem)],
            )
    releases = [_message(i) for i in items if isinstance(i, ReleaseItem)]
    return si.AllocationRequest(
        rmID=rm_id,
        allocations=[_message(i) for i in items if isinstance(i, AskItem)],
        releases=si.AllocationReleasesRequest(allocationsToRelease=releases) if releases else None,
    )


def _message(item: Item) -> Any:
    return item.message()


class WireRm:
    """One RM."""

    def __init__(self, site: Site, rm_id: str, script: list[str]) -> None:
        """Not registered."""
        self.site = site
        self.rm_id = rm_id
        self.ledger = Ledger(rm_id)
        self.instance = 0
        self.config = GOOD[0]
        self.talk: Talk | None = None
        self.lines: dict[str, Line] = {}
        self._fading: list[tuple[str, Line]] = []
        self._script = script
        self._said: dict[str, list[list[Item]]] = {kind: [] for kind in KINDS}
        self._lost: list[tuple[str, list[Item]]] = []
        self._stamp = 0

    # ---- Registering ----

    def register(self, config: Config) -> Status:
        """Over `si.v1`; what was open before is gone unless the registration is refused."""
        status, _ = self.site.call(
            REGISTER, si.RegisterResourceManagerRequest(rmID=self.rm_id, config=config.text)
        )
        self._write(f"registers over si.v1 with {config.name}: {status.code.name}")
        if status == OK:
            self._begin(config, held=False)
        return status

    def begin_session(self, config: Config) -> Status:
        """Over `Session`, as a newer instance."""
        self.instance += 1
        talk = Talk(self.rm_id, self.instance, config.text, self._stamp)
        line, welcome = self._greet(talk)
        if welcome is None:
            assert line.status is not None, "neither a welcome nor an end"
            return line.status
        if welcome.welcome.resumed:
            raise Violation("a hello without a token was resumed")
        self._begin(config, held=True)
        self.talk = talk
        self.lines = {WHOLE: line}
        self._stamp = talk.begin(welcome)
        return OK

    def _begin(self, config: Config, *, held: bool) -> None:
        """What there was is gone, and what is still said of it is of no interest."""
        for line in self.lines.values():
            self.site.hang_up(line)
        self.lines.clear()
        self._fading.clear()
        self.talk = None
        self.config = config
        self.ledger.ordered = held
        self.ledger.registered(config.partitions, held=held)
        self._forget_said()

    def _greet(self, talk: Talk) -> tuple[Line, session.UpdateResponse | None]:
        """Open a line with a hello; the welcome, if there is one."""
        line = self.site.open(SESSION)
        line.under_way.append(talk.hello())
        line.arrive()
        self.site.rest()
        if not line.answers:
            self._write(f"says hello as {talk.instance}: {line.status}")
            return line, None
        welcome = session.UpdateResponse.FromString(line.answers.popleft())
        how = "resumed" if welcome.welcome.resumed else "registered anew"
        self._write(f"says hello as {talk.instance}: {how}")
        return line, welcome

    def unregister(self) -> None:
        """Say goodbye for good; a session alone can."""
        self._write("> goodbye for good")
        self._number({"goodbye": session.Goodbye(unregister=True)})
        self.flow(KINDS)
        self.site.rest()
        line = self.lines.pop(WHOLE)
        if line.status != OK:
            raise Violation(f"{self.rm_id}: a goodbye ended with {line.status}")
        self.talk = None
        self.ledger.registered(frozenset(), held=True)
        self._forget_said()

    # ---- Connection ----

    @property
    def is_registered(self) -> bool:
        """Whether the server knows the RM."""
        return bool(self.ledger.partitions)

    @property
    def is_connected(self) -> bool:
        """Whether everything can be said and heard."""
        wanted = 1 if self.talk is not None else len(KINDS)
        return len(self.lines) == wanted and all(line.is_open for line in self.lines.values())

    def open_streams(self) -> Status:
        """Open what is missing of the three streams; the first message says whose they are."""
        for kind in KINDS:
            if kind not in self.lines or not self.lines[kind].is_open:
                line = self.lines[kind] = self.site.open(METHODS[kind])
                line.under_way.append(request(kind, [], self.rm_id).SerializeToString())
                line.arrive()
        self.site.rest()
        return next((line.status for line in self.lines.values() if line.status), OK)

    def resume(self) -> bool:
        """Go on with the session over another line; False when it had to be registered anew."""
        assert self.talk is not None, "there is no session to resume"
        line, welcome = self._greet(self.talk)
        if welcome is None:
            raise Violation(f"a session could not be resumed: {line.status}")
        self.lines = {WHOLE: line}
        if not welcome.welcome.resumed:
            self._stamp = self.talk.begin(welcome)
            self.ledger.registered(self.config.partitions, held=True)
            self._forget_said()
            return False
        line.under_way.extend(self.talk.resume(welcome))
        return True

    def take_over(self) -> None:
        """Open every line anew while the older ones are open; the server ends those."""
        older, self.lines = self.lines, {}
        self._write("opens its lines anew")
        if self.talk is not None:
            # What it had answered comes again.
            self.resume()
            return
        for kind, line in older.items():
            self._fading.append((kind, line))
            self._doubt(kind)
        self.open_streams()

    def knock(self, method: str, raw: bytes) -> Status | None:
        """How a line that begins with these bytes ends."""
        line = self.site.open(method)
        line.under_way.append(raw)
        line.arrive()
        self.site.rest()
        return line.status

    def blurt(self, kind: str, raw: bytes) -> Status | None:
        """How a line ends after these bytes; another takes its place."""
        name = kind if self.talk is None else WHOLE
        line = self.lines.pop(name)
        line.under_way.append(raw)
        line.arrive(len(line.under_way))
        self.site.rest()
        if self.talk is None:
            self.open_streams()
        else:
            self.resume()
        return line.status

    def sealed(self, kind: str, payload: bytes, *, skipped: int = 0) -> bytes:
        """A request as it goes over the RM's lines, with the next number or one further."""
        return payload if self.talk is None else self.talk.sealed(kind, payload, skipped)

    def hang_up(self, kinds: Iterable[str] = (*KINDS, WHOLE), *, deaf_to: int = 0) -> None:
        """Lose lines; of a session also the last answers, which were not listened to yet."""
        for kind in kinds:
            line = self.lines.pop(kind, None)
            if line is None:
                continue
            self._write(f"loses {kind}")
            self.site.hang_up(line)
            if kind == WHOLE:
                for _ in range(min(deaf_to, len(line.answers))):
                    line.answers.pop()
                self._listen_to(kind, line)
            else:
                self._fading.append((kind, line))
                self._doubt(kind)

    def _doubt(self, kind: str) -> None:
        """What was said on a line since things were certain may not have got through."""
        for items in reversed(self._said[kind]):
            self.ledger.doubt(reversed(items))
        self._lost += [(kind, items) for items in self._said[kind]]

    # ---- Saying ----

    def can_say(self, kind: str) -> bool:
        """Whether there is a line for it."""
        line = self.lines.get(kind if self.talk is None else WHOLE)
        return line is not None and line.is_open

    def say(self, kind: str, items: Sequence[Item]) -> None:
        """Put a message on its way."""
        self._write(f"> {', '.join(map(repr, items))}")
        self.ledger.say(items)
        self._said[kind].append(list(items))
        message = request(kind, items, self.rm_id)
        if self.talk is None:
            self.lines[kind].under_way.append(message.SerializeToString())
        else:
            self.talk.count(kind, items)
            self._number({kind: message})

    def _number(self, message: dict[str, Any]) -> None:
        assert self.talk is not None, "only a session numbers"
        self.lines[WHOLE].under_way.append(self.talk.next(message))

    def say_again(self) -> None:
        """Repeat what may have been lost with its line."""
        lost, self._lost = self._lost, []
        for kind, items in lost:
            self.say(kind, items)

    def repeat_number(self) -> None:
        """Send the last request of a session again with its number, which must not matter."""
        if self.talk is not None and self.talk.kept:
            self._write("> the last request again")
            self.lines[WHOLE].under_way.append(self.talk.kept[-1].SerializeToString())

    def begin_replay(self) -> None:
        """What follows is all there is."""
        assert self.talk is not None, "only a session has replays"
        self._write("> begins a replay")
        self.ledger.hold(on=True)
        self.talk.begin_replay()
        self._number({"replay_begin": session.ReplayBegin()})

    def end_replay(self, *, miscounted: bool = False) -> None:
        """That was all; miscounted, or without a beginning, it must not be taken for complete."""
        assert self.talk is not None, "only a session has replays"
        self._write(f"> ends the replay{', miscounted' if miscounted else ''}")
        counts = self.talk.end_replay(miscounted=miscounted)
        self.ledger.hold(on=not self.talk.expects_complete[-1])
        self._number({"replay_end": counts})

    def configure(self, config: Config) -> tuple[Status, bool]:
        """Update the configuration; whether that changed anything."""
        asked = admin.UpdateConfigurationRequest(rm_id=self.rm_id, config=config.text)
        status, raw = self.site.call(CONFIGURE, asked)
        changed = status == OK and admin.UpdateConfigurationResponse.FromString(raw).changed
        self._write(f"configures {config.name}: {status.code.name}{', changed' if changed else ''}")
        if status == OK:
            self.config = config
            self.ledger.configured(config.partitions)
            if self.talk is not None:
                self.talk.config = config.text
        return status, changed

    # ---- Hearing ----

    def flow(self, order: Sequence[str], rounds: int | None = None) -> None:
        """Let what is under way arrive, one line after another; the loop rests or goes round."""
        for kind in (*order, WHOLE):
            line = self.lines.get(kind)
            if line is not None and line.under_way:
                line.arrive(len(line.under_way))
                if rounds is None:
                    self.site.loop.rest()
                else:
                    self.site.loop.rounds(rounds)

    def listen(self) -> bool:
        """Hear what was answered; whether there was anything."""
        self.ledger.deaf = self.talk is None and APPLICATIONS not in self.lines
        heard = False
        # First how applications fare: the others are judged by it.
        for kind in (APPLICATIONS, NODES, ALLOCATIONS, WHOLE):
            lines = [line for faded, line in self._fading if faded == kind]
            lines += [self.lines[kind]] if kind in self.lines else []
            for line in lines:
                heard |= self._listen_to(kind, line)
        for kind, line in self.lines.items():
            status = line.status
            if status is not None and status.code is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise Violation(f"{self.rm_id}: the line of {kind} ended with {status}")
        return heard

    def _listen_to(self, kind: str, line: Line) -> bool:
        heard = bool(line.answers)
        while line.answers:
            raw = line.answers.popleft()
            if kind == WHOLE:
                assert self.talk is not None, "a line of a session without one"
                told = self.talk.hear(raw)
                if told is not None:
                    self._hear(told)
            else:
                self._hear(RESPONSES[kind].FromString(raw))
        return heard

    def _hear(self, message: Message) -> None:
        text = " ".join(str(message).split())
        self._write(f"< {type(message).__name__} {text}")
        match message:
            case si.NodeResponse():
                self.ledger.hear_nodes(message)
            case si.ApplicationResponse():
                self.ledger.hear_applications(message)
            case si.AllocationResponse():
                self.ledger.hear_allocations(message)

    def acknowledge(self) -> None:
        """Tell how far we have listened, where that can be told."""
        if self.talk is not None and self.can_say(WHOLE):
            raw = self.talk.acknowledgement()
            if raw is not None:
                self.lines[WHOLE].under_way.append(raw)

    def is_quiet(self) -> bool:
        """Whether nothing is under way in either direction."""
        return not any(line.under_way or line.answers for line in self.lines.values())

    def settle(self, books: Any) -> None:
        """All was dealt with and heard: compare."""
        self.ledger.settle(books)
        self._forget_said()

    def _forget_said(self) -> None:
        self._lost.clear()
        for messages in self._said.values():
            messages.clear()

    def _write(self, text: str) -> None:
        self._script.append(f"{self.rm_id} {text}")
