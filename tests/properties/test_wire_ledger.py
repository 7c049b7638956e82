"""The ledger of the wire machine detects faults planted in a recorded history of messages."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from licorne.si.v1 import si_pb2 as si
from support.wire.books import Books
from support.wire.connection import ALLOCATIONS, APPLICATIONS, NODES
from support.wire.items import GOOD, AppItem, AskItem, NodeItem, ReleaseItem, RemovalItem
from support.wire.ledger import Item, Ledger
from support.wire.still import stillness
from support.wire.tracks import Violation
from support.wire.world import World

SIZE = (("vcore", 1),)


class Moment(NamedTuple):
    """One call of a ledger: the method, and its arguments."""

    method: str
    given: Any


History = list[Moment]


class RecordingLedger(Ledger):
    """A ledger that records its calls."""

    def __init__(self) -> None:
        """Start with an empty history."""
        super().__init__("rm1")
        self.history: History = []

    def say(self, items: Any) -> None:
        """Record the call."""
        self.history.append(Moment("say", list(items)))
        super().say(items)

    def hear_nodes(self, response: si.NodeResponse) -> None:
        """Record the response."""
        self.history.append(Moment("hear_nodes", response))
        super().hear_nodes(response)

    def hear_applications(self, response: si.ApplicationResponse) -> None:
        """Record the response."""
        self.history.append(Moment("hear_applications", response))
        super().hear_applications(response)

    def hear_allocations(self, response: si.AllocationResponse) -> None:
        """Record the response."""
        self.history.append(Moment("hear_allocations", response))
        super().hear_allocations(response)

    def settle(self, books: Books) -> None:
        """Record the call."""
        self.history.append(Moment("settle", books))
        super().settle(books)


@pytest.fixture(scope="module")
def history() -> History:
    """Messages of an RM with two nodes, one drained, and two applications."""
    with stillness():
        return recorded()


def recorded() -> History:
    """Play a fixed script, and return its history."""
    world = World()
    rm = world.rms[0]
    rm.ledger = ledger = RecordingLedger()
    world.restart(rm, GOOD[0], session=True)
    rm.begin_replay()
    rm.end_replay()
    node = (("memory", 4), ("vcore", 6))
    script: list[tuple[str, list[Item]]] = [
        (NODES, [NodeItem(name, "CREATE", node, "") for name in ("n0", "n1")]),
        (
            APPLICATIONS,
            [AppItem("a0"), AppItem("a1", queue="root.b"), AppItem("a2", queue="root.b", gang=2)],
        ),
        (ALLOCATIONS, [AskItem(f"k{i}", "a0", SIZE) for i in range(4)]),
        (NODES, [NodeItem("n1", "DRAIN_NODE", None, "")]),
        (
            ALLOCATIONS,
            [AskItem("k4", "a1", SIZE), AskItem("k5", "a1", ()), AskItem("k6", "a9", SIZE)],
        ),
        (ALLOCATIONS, [AskItem("k7", "a1", SIZE, "n1"), ReleaseItem("k0", "a0")]),
        (ALLOCATIONS, [ReleaseItem("k1", "a0"), AskItem("k8", "a0", (("vcore", 9),))]),
        (APPLICATIONS, [RemovalItem("a1")]),
        (NODES, [NodeItem("n1", "DECOMISSION", None, "")]),
    ]
    for kind, items in script:
        world.touch(rm)
        rm.say(kind, items)
        world.settle()
    world.close()
    return ledger.history


def play(history: History, *, ordered: bool = True, held: bool = False) -> None:
    """Replay the history to a new ledger, which fails at the first fault."""
    ledger = Ledger("rm1")
    ledger.ordered = ordered
    ledger.registered(GOOD[0].partitions, held=held)
    for method, given in history:
        getattr(ledger, method)(given)


def answers(history: History, kind: str) -> list[int]:
    """Positions in the history of responses with this kind of answer about allocations."""
    return [
        place
        for place, (method, given) in enumerate(history)
        if method == "hear_allocations" and len(getattr(given, kind))
    ]


def test_a_valid_history_is_accepted(history: History) -> None:
    """The ledger accepts a history without faults."""
    play(history)


@pytest.mark.parametrize("kind", ["new", "released", "rejectedAllocations"])
def test_repeated_answers_are_flagged(history: History, kind: str) -> None:
    """D2: a `new`, a release or a rejection that is sent twice is a fault."""
    places = answers(history, kind)
    assert places, f"the history has no {kind}"
    for place in places:
        with pytest.raises(Violation, match="must not be"):
            play([*history[: place + 1], history[place], *history[place + 1 :]])


@pytest.mark.parametrize("kind", ["new", "released", "rejectedAllocations"])
def test_missing_answers_are_flagged(history: History, kind: str) -> None:
    """A `new`, a release or a rejection that was due and never sent is a fault."""
    for place in answers(history, kind):
        with pytest.raises(Violation, match=r"the books have|an answer is missing"):
            play([*history[:place], *history[place + 1 :]])


Change = Callable[[si.AllocationResponse], None]


def of_first(**changes: Any) -> Change:
    """A change that sets these fields in the first `new` of a response."""

    def change(response: si.AllocationResponse) -> None:
        for name, value in changes.items():
            setattr(response.new[0], name, value)

    return change


def bigger(response: si.AllocationResponse) -> None:
    """Change the first `new` to a larger amount than was requested."""
    response.new[0].resourcePerAlloc.resources["vcore"].value += 1


def mixed(response: si.AllocationResponse) -> None:
    """Add a release to a response that already has a `new`."""
    response.released.add(applicationID="a0", allocationKey="k0", terminationType=si.STOPPED_BY_RM)


@pytest.mark.parametrize(
    "change",
    [
        of_first(nodeID="n9"),
        of_first(allocationKey="k99"),
        of_first(applicationID="a2"),
        of_first(partitionName="[rm2]default"),
        of_first(priority=7),
        bigger,
        mixed,
    ],
    ids=["unknown node", "unknown key", "unknown app", "partition", "priority", "size", "mixed"],
)
def test_wrong_answers_are_flagged(history: History, change: Change) -> None:
    """D2, D3: a `new` that differs from its ask in anything but the node is a fault."""
    place = answers(history, "new")[0]
    changed = si.AllocationResponse.FromString(history[place].given.SerializeToString())
    change(changed)
    with pytest.raises(Violation):
        play([*history[:place], Moment("hear_allocations", changed), *history[place + 1 :]])


def test_a_placement_on_a_drained_node_is_flagged(history: History) -> None:
    """D3: an allocation on a node that was drained before the ask was submitted is a fault."""
    drained = next(
        place
        for place, (method, given) in enumerate(history)
        if method == "say" and repr(given[0]).startswith("DRAIN")
    )
    place = next(place for place in answers(history, "new") if place > drained)
    moved = si.AllocationResponse.FromString(history[place].given.SerializeToString())
    moved.new[0].nodeID = "n1"
    with pytest.raises(Violation, match="must not be"):
        play([*history[:place], Moment("hear_allocations", moved)])


def test_an_allocation_before_its_application_is_flagged(history: History) -> None:
    """S2: if answers are ordered, a `new` of an application that is not accepted yet is a fault."""
    place = answers(history, "new")[0]
    accepted = next(at for at, (method, _) in enumerate(history) if method == "hear_applications")
    asked = next(moment for moment in history if moment.method == "say" and "k0" in repr(moment))
    early = [*history[:accepted], asked, history[place]]
    with pytest.raises(Violation, match="not accepted before"):
        play(early)
    play(early, ordered=False)


def test_a_placement_on_hold_is_flagged(history: History) -> None:
    """The placement of an ask during a replay is a fault."""
    place = answers(history, "new")[0]
    untold = [moment for moment in history[: place + 1] if moment.method != "settle"]
    play(untold)
    with pytest.raises(Violation, match="must not be"):
        play(untold, held=True)


def test_placeholders_are_kept_until_the_rm_confirms() -> None:
    """A placeholder that the RM is asked to stop is kept until the RM confirms the stop."""
    with stillness():
        world = World()
        rm = world.rms[0]
        rm.ledger = ledger = RecordingLedger()
        world.restart(rm, GOOD[0], session=True)
        rm.begin_replay()
        rm.end_replay()
        rm.say(NODES, [NodeItem("n0", "CREATE", (("vcore", 3),), "")])
        rm.say(APPLICATIONS, [AppItem("a0", gang=4)])
        rm.say(ALLOCATIONS, [AskItem(f"k{i}", "a0", SIZE, placeholder=True) for i in range(4)])
        world.settle()
        world.advance(901.0, late=False)
        rm.say(ALLOCATIONS, [ReleaseItem(f"k{i}", "a0", si.TIMEOUT) for i in range(3)])
        world.settle()
        world.close()
    ended = answers(ledger.history, "released")
    told = [each for place in ended for each in ledger.history[place].given.released]
    assert [each.terminationType for each in told] == [si.TIMEOUT] * 4
    assert ledger.around.app("a0").start == "Accepted", "a soft gang goes on without them"
    for moment in ledger.history:
        if moment.method == "say":
            real = [
                item._replace(placeholder=False) if isinstance(item, AskItem) else item
                for item in moment.given
            ]
            moment.given[:] = real
    with pytest.raises(Violation, match="must not be"):
        play(ledger.history)
