"""An RM's side of the wire: its messages are recorded in its ledger, and in a script."""

from collections.abc import Iterable, Sequence

import grpc

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as admin
from licorne.v1 import session_pb2 as session
from support.wire.books import Books
from support.wire.connection import ALLOCATIONS, APPLICATIONS, KINDS, NODES, WHOLE, Connection, request
from support.wire.items import GOOD, Config, InForce, is_removal
from support.wire.ledger import Item, Ledger
from support.wire.site import OK, Line, Site, Status
from support.wire.tracks import Violation

REGISTER = "/si.v1.Scheduler/RegisterResourceManager"
CONFIGURE = "/licorne.v1.Admin/UpdateConfiguration"


class WireRm:
    """One RM."""

    def __init__(self, site: Site, rm_id: str, script: list[str]) -> None:
        """Create an unregistered RM."""
        self.site = site
        self.rm_id = rm_id
        self.ledger = Ledger(rm_id)
        self.connection = Connection(site, rm_id, self._write)
        self.config = GOOD[0]
        self._in_force = InForce()
        self.sends_singly = False
        """True if each item is sent in a message of its own, as by real shims."""
        self._script = script
        self._said: dict[str, list[list[Item]]] = {kind: [] for kind in KINDS}
        self._lost: list[tuple[str, list[Item]]] = []

    # ---- Registering ----

    def register(self, config: Config) -> Status:
        """Register over `si.v1`; earlier streams are lost unless the registration is refused."""
        asked = si.RegisterResourceManagerRequest(rmID=self.rm_id, config=config.text)
        status, _ = self.site.call(REGISTER, asked)
        self._write(f"registers over si.v1 with {config.name}: {status.code.name}")
        if status == OK:
            self.connection.forget()
            self._begin(config, held=False)
        return status

    def begin_session(self, config: Config, *, is_asked: bool) -> Status:
        """Register over `Session` as a newer instance; earlier streams are lost unless that is refused."""
        self._write(f"wants a session with {config.name}{', and to be asked' if is_asked else ''}")
        status = self.connection.open_session(config.text, is_asked=is_asked)
        if status == OK:
            self._begin(config, held=True)
        return status

    def _begin(self, config: Config, *, held: bool) -> None:
        config = self.config = self._in_force.registered(config)
        self.ledger.ordered = held
        self.ledger.registered(config.partitions, held=held)
        talk = self.connection.talk
        if talk is not None and talk.is_asked:
            self.ledger.around.agreed = {}
        self._forget_said()

    def unregister(self) -> None:
        """Unregister for good, which needs a session."""
        self._write("> goodbye for good")
        line = self.connection.lines[WHOLE]
        self.connection.number({"goodbye": session.Goodbye(unregister=True)})
        self.connection.flow(KINDS)
        self.site.rest()
        if line.status != OK:
            raise Violation(f"{self.rm_id}: a goodbye ended with {line.status}")
        self.connection.forget()
        self.ledger.registered(frozenset(), held=True)
        self._forget_said()

    # ---- Connection ----

    def resume(self) -> bool:
        """Resume a session; False if the server registered the RM again instead."""
        resumed = self.connection.resume()
        if not resumed:
            self._begin(self.config, held=True)
        return resumed

    def hang_up(self, kinds: Iterable[str], *, deaf_to: int = 0) -> None:
        """Lose streams of these kinds."""
        for kind in kinds:
            line = self.connection.cut(kind, deaf_to=deaf_to)
            if line is not None and kind == WHOLE:
                self._listen_to(kind, line)
            elif line is not None:
                self._doubt(kind)

    def take_over(self) -> None:
        """Open every stream again while the older ones are still open."""
        self._write("opens its lines anew")
        if self.connection.has_session:
            self.resume()
            return
        for kind in KINDS:
            self._doubt(kind)
        self.connection.replace_streams()

    def _doubt(self, kind: str) -> None:
        """Messages on a stream since the last certain state may be lost."""
        for items in reversed(self._said[kind]):
            self.ledger.doubt(reversed(items))
        self._lost += [(kind, items) for items in self._said[kind]]

    # ---- Saying ----

    def say(self, kind: str, items: Sequence[Item]) -> None:
        """Send a message, or one for each item; removals are last, as in a message."""
        ordered = sorted(items, key=is_removal)
        for part in [[item] for item in ordered] if self.sends_singly else [items]:
            self._write(f"> {', '.join(map(repr, part))}")
            self.ledger.say(part)
            self._said[kind].append(list(part))
            talk = self.connection.talk
            if talk is not None:
                talk.count(kind, part)
            self.connection.send(kind, request(kind, part, self.rm_id))

    def answer(self, place: int, refused: Iterable[int], count: int, *, as_list: bool) -> None:
        """Answer this number of open predicate checks, in one message or one message each.

        `refused` are the positions of the refused nodes in each check.
        """
        talk = self.connection.talk
        if talk is None:
            return
        talk.checks.rotate(-place)
        taken = [talk.checks.popleft() for _ in range(min(count, len(talk.checks)))]
        answers = []
        for check in taken:
            nodes = {check.node_ids[at % len(check.node_ids)] for at in refused}
            self._write(f"> refuses {sorted(nodes)} in answer to {check.id}")
            if talk.counts(check):
                self.ledger.around.answered(check, nodes)
            answers.append(refusing(check, nodes))
        for message in [answers] if as_list else [[answer] for answer in answers]:
            self.connection.number({"predicate_answers": session.PredicateAnswers(answers=message)})

    def say_again(self) -> None:
        """Repeat messages that may have been lost with their stream."""
        lost, self._lost = self._lost, []
        for kind, items in lost:
            self.say(kind, items)

    def begin_replay(self) -> None:
        """Begin a replay over a session."""
        talk = self.connection.talk
        assert talk is not None, "only a session has replays"
        self._write("> begins a replay")
        self.ledger.around.hold(on=True)
        talk.begin_replay()
        self.connection.number({"replay_begin": session.ReplayBegin()})

    def end_replay(self, *, miscounted: bool = False) -> None:
        """End a replay; if it is miscounted, or was not begun, it must not count as complete."""
        talk = self.connection.talk
        assert talk is not None, "only a session has replays"
        self._write(f"> ends the replay{', miscounted' if miscounted else ''}")
        end = talk.end_replay(miscounted=miscounted)
        self.ledger.around.hold(on=not talk.expects_complete[-1])
        self.connection.number({"replay_end": end})

    def configure(self, config: Config) -> tuple[Status, bool]:
        """Update the configuration; return the status, and whether the update changed anything."""
        asked = admin.UpdateConfigurationRequest(rm_id=self.rm_id, config=config.text)
        status, raw = self.site.call(CONFIGURE, asked)
        changed = status == OK and admin.UpdateConfigurationResponse.FromString(raw).changed
        how = f"{status.code.name}{', changed' if changed else ''}"
        self._write(f"configures {config.name}: {how}")
        if status == OK:
            if changed:
                self._in_force.applied = config
            self.config = config
            self.ledger.around.configured(config.partitions)
            if self.connection.talk is not None:
                self.connection.talk.config = config.text
        return status, changed

    # ---- Hearing ----

    def listen(self) -> bool:
        """Process answers; return whether there were any."""
        lines = self.connection.lines
        self.ledger.around.deaf = not self.connection.has_session and APPLICATIONS not in lines
        heard = False
        # Answers about applications are first, because other answers are judged by them.
        for kind in (APPLICATIONS, NODES, ALLOCATIONS, WHOLE):
            for line in self.connection.speaking(kind):
                heard |= self._listen_to(kind, line)
        for kind, line in lines.items():
            status = line.status
            if status is not None and status.code is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise Violation(f"{self.rm_id}: the line of {kind} ended with {status}")
        return heard

    def _listen_to(self, kind: str, line: Line) -> bool:
        heard = bool(line.answers)
        for message in self.connection.answers(kind, line):
            self._write(f"< {type(message).__name__} {' '.join(str(message).split())}")
            self.ledger.hear(message)
            if isinstance(message, session.PredicateChecks):
                assert self.connection.talk is not None, "a check without a session"
                for check in message.checks if self.connection.talk.lets_pass else ():
                    self.ledger.around.answered(check, ())
        return heard

    def settle(self, books: Books) -> None:
        """Compare the ledger with the server's records, once no message is in flight."""
        self.ledger.settle(books)
        if self.connection.talk is not None:
            self.connection.talk.settle()
        self._forget_said()

    def _forget_said(self) -> None:
        self._lost.clear()
        for messages in self._said.values():
            messages.clear()

    def _write(self, text: str) -> None:
        self._script.append(f"{self.rm_id} {text}")


def refusing(check: session.PredicateCheck, nodes: Iterable[str]) -> session.PredicateAnswer:
    """An answer to a check that refuses these nodes."""
    refusals = [session.NodeRefusal(node_id=node, reason="no") for node in sorted(nodes)]
    return session.PredicateAnswer(id=check.id, refused=refusals)
