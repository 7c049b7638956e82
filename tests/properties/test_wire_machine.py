"""Two RMs whose messages arrive in any order, twice, late or never (reliability §§ 2, 3.1-3.3).

The rules of a state machine are messages, processed by the services of the server on an event loop that the
test advances. A ledger for each RM has the possible states, with which the books of the server must agree
whenever all messages are processed.
"""

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from licorne_core.messages.commands import TerminationType
from licorne_server.rms.outbox import Outbox, Sent
from licorne_server.rms.rm import Session
from licorne_server.rms.streams import Intake, Stream
from licorne_server.wire.responses import Kind
from support.wire.connection import APPLICATIONS, KINDS, NODES
from support.wire.drawing import MISCHIEF, do_mischief, is_idempotent, localized, messages
from support.wire.items import BAD, GOOD, AppItem, AskItem, Config, NodeItem
from support.wire.ledger import Item
from support.wire.shim import WireRm
from support.wire.site import OK
from support.wire.still import stillness
from support.wire.tracks import Violation
from support.wire.world import World

WHO = st.sampled_from([0, 0, 1])
THEN = st.sampled_from(["rests", "rests", "rests twice", "waits", "arrives"])
ROUNDS = st.integers(0, 12)
ORDERS = st.permutations(KINDS)
LAST = st.none() | messages
ANSWERS = rule(
    place=st.integers(0, 3),
    refused=st.sets(st.integers(0, 3), max_size=2),
    count=st.integers(1, 5),
    as_list=st.booleans(),
)
SAYS = rule(who=WHO, told=st.lists(st.tuples(messages, THEN, ROUNDS), min_size=1, max_size=4))


def say_twice(world: World, rm: WireRm, kind: str, items: list[Item]) -> None:
    """S1: send a message again, and check that nothing changes."""
    before = world.digest(rm.rm_id)
    world.touch(rm)
    rm.say(kind, items)
    world.settle()
    after = world.digest(rm.rm_id)
    if before != after:
        raise Violation(f"S1: said twice, {items}:\n{before}\n{after}")


class WireMachine(RuleBasedStateMachine):
    """The rules of the state machine."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def teardown(self) -> None:
        """Print the script of the shortest failure."""
        hypothesis.note("\n".join(self.world.script))
        self.world.close()

    @initialize(
        sessions=st.tuples(st.booleans(), st.booleans()),
        singly=st.tuples(st.booleans(), st.booleans()),
        is_asked=st.booleans(),
    )
    def two_rms(self, sessions: tuple[bool, bool], singly: tuple[bool, bool], is_asked: bool) -> None:
        """Register both RMs, with two nodes and two applications each; some RMs send items singly."""
        for rm, session, sends_singly in zip(self.world.rms, sessions, singly, strict=True):
            rm.sends_singly = sends_singly
            self.world.restart(rm, GOOD[0], session=session, is_asked=is_asked)
            if rm.connection.has_session:
                rm.begin_replay()
                rm.end_replay()
            size = (("memory", 4), ("vcore", 4))
            rm.say(NODES, [NodeItem(node, "CREATE", size, "") for node in ("n0", "n1")])
            self.world.site_takes_all(rm)
            rm.say(APPLICATIONS, [AppItem("a0"), AppItem("a1", queue="root.b")])
        self.world.settle()

    # ---- Messages ----

    def says(self, who: int, told: list[tuple[tuple[str, list[Item]], str, int]]) -> None:
        """The RM sends nodes, applications, or asks, allocations and releases."""
        for (kind, items), then, rounds in told:
            self._say(self.world.rms[who], kind, items, then, rounds)

    # All rules are equally likely; a rule that is listed more than once is drawn more often.
    says_one = SAYS(says)
    says_two = SAYS(says)
    says_three = SAYS(says)
    says_four = SAYS(says)
    says_five = SAYS(says)
    says_six = SAYS(says)

    def _say(self, rm: WireRm, kind: str, items: list[Item], then: str, rounds: int) -> None:
        world = self.world
        said = [localized(item, rm.rm_id) for item in items]
        world.connect(rm)
        world.touch(rm)
        rm.say(kind, said)
        match then:
            case "rests":
                world.settle()
            case "arrives":
                self._arrive(rm, (kind,), rounds)
            case "rests twice":
                world.settle()
                # An ask that did not fit at first may fit later.
                around = rm.ledger.around
                named = {i.node_id for i in said if isinstance(i, AskItem) and i.node_id}
                there = not any(around.node_may_be(name, there=False) for name in named)
                fits = there and not around.huge
                if fits and is_idempotent(said) and rm.connection.is_whole:
                    say_twice(world, rm, kind, said)

    def answers(self, place: int, refused: set[int], count: int, as_list: bool) -> None:
        """RMs answer some predicate checks, in any order."""
        for rm in self.world.rms:
            if rm.connection.is_whole:
                self.world.touch(rm)
                rm.answer(place, sorted(refused), count, as_list=as_list)
        self.world.settle()

    answers_once = ANSWERS(answers)
    answers_more = ANSWERS(answers)

    @rule(who=WHO, order=ORDERS, rounds=ROUNDS)
    def some_arrives(self, who: int, order: list[str], rounds: int) -> None:
        """Messages of one or two of the three streams arrive before the others."""
        self._arrive(self.world.rms[who], order[:2], rounds)

    def _arrive(self, rm: WireRm, kinds: tuple[str, ...] | list[str], rounds: int) -> None:
        self.world.touch(rm)
        rm.connection.flow(kinds, rounds)
        self.world.site.check()

    @rule(order=ORDERS)
    def rest(self, order: list[str]) -> None:
        """All messages in flight arrive; the order of the streams is drawn."""
        self.world.settle(order)

    @rule(who=WHO)
    def same_number(self, who: int) -> None:
        """The last request of a session arrives twice, with the same number."""
        rm = self.world.rms[who]
        if rm.connection.is_whole:
            rm.connection.repeat_number()

    @rule(seconds=st.sampled_from([0.5, 3.0, 11.0, 31.0, 61.0, 400.0]), late=st.booleans())
    def time_passes(self, seconds: float, late: bool) -> None:
        """Timers fire in time, or late and together."""
        self.world.advance(seconds, late=late)

    # ---- Faults ----

    def _in_the_midst(self, rm: WireRm, last: tuple[str, list[Item]] | None, rounds: int) -> None:
        """A message is sent, and its processing does not end."""
        self.world.touch(rm)
        if last is not None and rm.connection.is_whole:
            kind, items = last
            rm.say(kind, [localized(item, rm.rm_id) for item in items])
            self._arrive(rm, (kind,), rounds)

    @rule(
        who=WHO,
        last=LAST,
        rounds=ROUNDS,
        kinds=st.sets(st.sampled_from(KINDS), min_size=1),
        deaf_to=st.integers(0, 3),
    )
    def line_breaks(
        self,
        who: int,
        last: tuple[str, list[Item]] | None,
        rounds: int,
        kinds: set[str],
        deaf_to: int,
    ) -> None:
        """Some streams break, or the session; their last answers are lost."""
        rm = self.world.rms[who]
        self._in_the_midst(rm, last, rounds)
        wanted = ["session"] if rm.connection.has_session else sorted(kinds)
        rm.hang_up(wanted, deaf_to=deaf_to)

    @rule(who=WHO, again=st.booleans(), settle=st.booleans())
    def comes_back(self, who: int, again: bool, settle: bool) -> None:
        """Streams are opened again, or a session is resumed; messages that may be lost are repeated."""
        self.world.connect(self.world.rms[who], again=again)
        if settle:
            self.world.settle()

    @rule(who=WHO)
    def is_taken_over(self, who: int) -> None:
        """The RM opens its streams a second time while the first ones still exist."""
        rm = self.world.rms[who]
        if rm.connection.is_whole:
            self.world.touch(rm)
            rm.take_over()
            self.world.connect(rm)

    @rule(
        who=WHO,
        last=LAST,
        rounds=ROUNDS,
        config=st.sampled_from(GOOD[:-1]),
        session=st.booleans(),
        is_asked=st.booleans(),
        seed=st.integers(0, 9),
        stop=st.sampled_from([None, None, None, 0, 1, 3]),
        miscounted=st.sampled_from([False, False, False, True]),
    )
    def restarts(
        self,
        who: int,
        last: tuple[str, list[Item]] | None,
        rounds: int,
        config: Config,
        session: bool,
        is_asked: bool,
        seed: int,
        stop: int | None,
        miscounted: bool,
    ) -> None:
        """An RM's process is replaced by a new one, which may not complete its start."""
        rm = self.world.rms[who]
        self._in_the_midst(rm, last, rounds)
        belief = self.world.restart(rm, config, session=session, is_asked=is_asked)
        self.world.replay(rm, belief, seed=seed, stop=stop, miscounted=miscounted)

    @rule(who=WHO, begins=st.booleans(), ends=st.booleans())
    def replay_marks(self, who: int, begins: bool, ends: bool) -> None:
        """A session sends the begin or the end of a replay, at any point."""
        rm = self.world.rms[who]
        if rm.connection.has_session and rm.connection.is_whole:
            self.world.touch(rm)
            if begins:
                rm.begin_replay()
            if ends:
                rm.end_replay()

    @rule(who=WHO)
    def unregisters(self, who: int) -> None:
        """An RM with a session leaves permanently."""
        rm = self.world.rms[who]
        self.world.settle()
        if rm.connection.has_session and rm.connection.is_whole:
            self.world.touch(rm)
            rm.unregister()
            self.world.settle()

    @rule(who=WHO, config=st.sampled_from([*GOOD, *GOOD, *BAD]))
    def configures(self, who: int, config: Config) -> None:
        """C1: another configuration is applied as a whole, or changes nothing."""
        world, rm = self.world, self.world.rms[who]
        world.settle()
        other_partitions = config.partitions != rm.ledger.around.partitions
        certain = rm.connection.is_whole and rm.ledger.is_certain
        if not rm.ledger.is_registered or (other_partitions and not certain and config not in BAD):
            return
        before = world.digest(rm.rm_id)
        world.touch(rm)
        status, changed = rm.configure(config)
        if changed:
            world.settle()
        elif before != world.digest(rm.rm_id):
            raise Violation(f"C1: {status} after {config}, and yet something is different")
        if config in BAD and status == OK:
            raise Violation(f"{config} was taken")

    @rule(who=WHO, what=st.sampled_from(MISCHIEF))
    def mischief(self, who: int, what: str) -> None:
        """Invalid messages, gaps, foreign RMs and older instances end with a status and change nothing."""
        world, rm = self.world, self.world.rms[who]
        world.connect(rm)
        world.settle()
        before = [world.digest(each.rm_id) for each in world.rms]
        do_mischief(rm, what)
        world.site.check()
        if before != [world.digest(each.rm_id) for each in world.rms]:
            raise Violation(f"{what} changed something")


def run_machine(part: range, phases: tuple[hypothesis.Phase, ...]) -> None:
    """Play as many sequences as the part has seeds: always the same ones, different for each part."""
    settings = hypothesis.settings(
        max_examples=len(part),
        stateful_step_count=40,
        derandomize=True,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    machine: Any = hypothesis.seed(part[0])(type("Part", (WireMachine,), {}))
    with stillness():
        run_state_machine_as_test(machine, settings=settings)


@pytest.mark.row(6, 7, 18, 123, 161)
@pytest.mark.worlds(one_in=5, size=40)
def test_ledgers_and_books_agree(part: range) -> None:
    """After messages in any order and number, the books of the server agree with its answers."""
    run_machine(part, (hypothesis.Phase.generate, hypothesis.Phase.shrink))


def lose_the_last(patch: pytest.MonkeyPatch) -> None:
    """Do not repeat the last message after a break."""
    after = Outbox.after

    def all_but_one(self: Outbox, number: int) -> list[Sent] | None:
        kept = after(self, number)
        return kept and kept[:-1]

    patch.setattr(Outbox, "after", all_but_one)


def cut_in_the_midst(patch: pytest.MonkeyPatch) -> None:
    """Drop a request that is in progress when its stream breaks."""
    patch.setattr(Stream, "is_handling", property(lambda _: False, lambda *_: None), raising=False)


def lose_what_was_read(patch: pytest.MonkeyPatch) -> None:
    """Treat requests of a broken stream that were not processed as repetitions on the next stream."""
    patch.setattr(Session, "begin_stream", lambda _: None)


def add_before_removing(patch: pytest.MonkeyPatch) -> None:
    """Join a removal with a following addition, so that the addition is processed first."""

    def joins(self: Intake, kind: Kind, _: int, *, removes: bool) -> bool:
        waiting = self._waiting
        return bool(waiting) and waiting[0].request is not None and waiting[0].kind is kind

    patch.setattr(Intake, "_joins", joins)


def acknowledge_nothing(patch: pytest.MonkeyPatch) -> None:
    """Do not acknowledge releases."""
    every = frozenset(TerminationType)
    patch.setattr("licorne_core.handlers.allocations._UNACKNOWLEDGED", every)


def do_not_hold(patch: pytest.MonkeyPatch) -> None:
    """Schedule asks during a replay."""
    patch.setattr("licorne_core.partitions.registry.Rm.set_hold", lambda *_, **__: None)


def resize_nothing(patch: pytest.MonkeyPatch) -> None:
    """Do not change the size of allocations."""
    patch.setattr("licorne_core.handlers.allocations._resize_allocation", lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "slip",
    [
        lose_the_last,
        cut_in_the_midst,
        lose_what_was_read,
        add_before_removing,
        acknowledge_nothing,
        do_not_hold,
        resize_nothing,
    ],
    ids=lambda slip: slip.__name__,
)
@pytest.mark.pure
def test_a_fault_of_the_server_is_detected(
    slip: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that loses, repeats, reorders or ignores messages fails the check."""
    slip(monkeypatch)
    # The first sequence that shows the defect is the last one played; it differs after every change of the
    # random draws.
    with pytest.raises(Violation):
        run_machine(range(4, 404), (hypothesis.Phase.generate,))
