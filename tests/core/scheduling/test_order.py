"""The order of reserved asks (spec § 8.6)."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import QueueConfig
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Tracker
from licorne_core.scheduling.order import Holder, ReservedAsks, queue_key
from licorne_core.scheduling.waiting.blockers import Blockers, RunningLimit
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath, UserGroup
from support.core.builders import ask
from support.core.trees import whole_tree

QUOTAS = 2


class World:
    """Two applications in each of two leaves, each with three asks, and their reservations."""

    def __init__(self) -> None:
        """Start without reservations; asks of higher numbers are submitted later."""
        leaves = (QueueConfig(name="a"), QueueConfig(name="b"))
        self.tree = whole_tree(QueueConfig(name="root", parent=True, queues=leaves))
        self.reserved = ReservedAsks()
        self.limits = Blockers(PartitionName("[rm]default"))
        self.quotas = [Tracker("user", str(n), QueuePath("root")) for n in range(QUOTAS)]
        self.leaves: list[Queue] = list(self.tree.leaves())
        self.apps: list[Application] = []
        self.owners: list[Holder] = []
        for leaf in self.leaves:
            for number in range(2):
                app_id = f"{leaf.name}{number}"
                app = Application(AppId(app_id), leaf.path, UserGroup("ann", ()), {}, number)
                app.leaf = leaf
                self.apps.append(app)
                for key in range(3):
                    request = Request(ask(app_id, f"k{key}", vcore=1), float(key), key + 1)
                    self.owners.append(Holder(leaf, app, request))
        self.known: dict[int, Reservation] = {}
        """The reservations, by the number of their owner."""
        self.ready: set[int] = set()

    def reserve(self, number: int) -> None:
        """Reserve a node for the ask, or end its reservation."""
        owner = self.owners[number]
        if number not in self.known:
            app_id, key = owner.app.app_id, owner.request.key
            made = Reservation(app_id, key, NodeId(f"n{number % 4}"), 0.0, required=False, items=())
            self.known[number] = made
            self.reserved.add(made, owner)
            self.ready.add(number)

    def limit(self, number: int) -> RunningLimit:
        """The blocker for the limit of applications of one quota."""
        return self.limits.get(RunningLimit, self.quotas[number])

    def place(self, number: int) -> tuple[object, ...]:
        """The place of an ask in the global order: queue, application, ask (shares and times differ)."""
        leaf, app, request = self.owners[number]
        return (leaf.shares, leaf.path, app.submission_time, app.app_id, request.place[:3])

    def share(self, leaf: Queue, value: float) -> None:
        """Give the leaf another share."""
        leaf.shares = [value]
        self.reserved.queue_key_changed(leaf, queue_key(leaf, priority_sort=True, types=()))

    def time(self, app: Application, value: float) -> None:
        """Give the application another time of submission."""
        app.submission_time = value
        self.reserved.app_key_changed(app)

    def turn_asks_round(self) -> None:
        """Reverse the order of the asks by age without a report, to detect a second read of their keys."""
        for owner in self.owners:
            owner.request.create_time = -owner.request.create_time

    def first(self) -> int:
        """The number of the first ready ask."""
        found = self.reserved.first(self.tree.root, ())
        return next(number for number, known in self.known.items() if known is found)


class Step(NamedTuple):
    """A random event of the ask, application or queue with this number."""

    what: str
    number: int
    value: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            [
                "add",
                "add",
                "remove",
                "park",
                "park with",
                "wake",
                "changed",
                "share",
                "time",
                "all",
                "node",
            ]
        ),
        st.integers(0, 11),
        st.integers(0, 5),
    ),
    max_size=60,
)


def carry_out(world: World, step: Step) -> None:
    """Apply one step to the world and to a plain list of ready items."""
    what, number, value = step
    known, reserved = world.known.get(number), world.reserved
    match what:
        case "add":
            world.reserve(number)
        case "remove" if known is not None:
            assert reserved.remove(known) is world.owners[number]
            del world.known[number]
            world.ready.discard(number)
        case "park" | "park with" if number in world.ready:
            assert known is not None
            reserved.park(known, (world.limit(value % QUOTAS),) if what == "park with" else ())
            world.ready.discard(number)
        case "wake" if known is not None:
            reserved.wake([known])
            world.ready.add(number)
        case "changed":
            limit = world.limits.of(RunningLimit).get(world.quotas[value % QUOTAS])
            woken = list(limit.priority_pass) if limit is not None else []
            reserved.wake(woken)
            world.ready |= {n for n, one in world.known.items() if one in woken}
        case "share":
            world.share(world.leaves[number % 2], float(value))
        case "time":
            world.time(world.apps[number % 4], float(value))
        case "all":
            # Changes of single keys are not reported in this case.
            world.leaves[number % 2].shares = [float(value)]
            world.apps[number % 4].submission_time = float(value)
            reserved.everything_changed()
        case "node":
            node = Node(NodeId(f"n{value % 4}"), {}, {}, schedulable=True)
            here = {n: one for n, one in world.known.items() if one.node_id == node.node_id}
            for one in here.values():
                node.add_reservation(one)
            reserved.wake_on(node)
            world.ready |= set(here)


@given(steps)
def test_reserved_asks_and_a_sorted_list_have_the_same_first_ask(history: list[Step]) -> None:
    """After any history of changed keys, the first ready ask is the first of a sorted list."""
    world = World()
    for step in history:
        carry_out(world, step)
        assert len(world.reserved) == len(world.known)
        assert set(world.reserved.ready) == {world.known[number] for number in world.ready}
        if world.ready:
            assert world.first() == min(world.ready, key=world.place)
        for limit in world.limits.of(RunningLimit).values():
            assert not limit.is_unused
        for known in world.known.values():
            assert all(known in blocker.priority_pass for blocker in world.reserved.blockers(known))


def test_wake_all_makes_all_reserved_asks_ready() -> None:
    """`wake_all` makes all reserved asks ready, in the order of their present keys."""
    world = World()
    for number in (0, 6):
        world.reserve(number)
        world.first()
        world.reserved.park(world.known[number], (world.limit(0),))
    world.leaves[0].shares = [1.0]
    world.reserved.wake_all()
    world.reserved.everything_changed()
    assert len(world.reserved.ready) == 2
    assert world.first() == 6
    assert world.limits.of(RunningLimit).get(world.quotas[0]) is None


def test_priorities_of_asks_precede_their_ages() -> None:
    """Reserved asks of one application are ordered by priority before age (spec § 5.3.2)."""
    world = World()
    leaf, app, _ = world.owners[0]
    high = Request(ask(app.app_id, "high", priority=1, vcore=1), 9.0, 9)
    world.owners.append(Holder(leaf, app, high))
    world.reserve(0)
    world.reserve(len(world.owners) - 1)
    assert world.first() == len(world.owners) - 1
    assert AllocationKey("high") == high.key


def test_a_changed_queue_reads_none_of_its_asks() -> None:
    """A changed key of a queue does not read the keys of asks in the queue."""
    world = World()
    for number in range(12):
        world.reserve(number)
    firsts = {world.first()}
    world.turn_asks_round()
    for share in (1.0, 2.0, -0.5):
        world.share(world.leaves[0], share)
        firsts.add(world.first())
    assert firsts == {0, 6}


def test_a_changed_application_reads_none_of_its_asks() -> None:
    """A changed key of an application does not read the keys of its asks."""
    world = World()
    for number in (0, 1, 2, 3):
        world.reserve(number)
    assert world.first() == 0
    world.turn_asks_round()
    for value in range(1, 20):
        world.time(world.apps[0], 10.0 + value)
        assert world.first() == 3
    world.time(world.apps[0], -1.0)
    assert world.first() == 0
