"""Deadlines of asks: back-offs and ages (spec §§ 8.3a, 8.5)."""

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import NodeSortPolicy, QueueConfig
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import RESERVATION_AGE, AskGroup, ReservationRequest
from licorne_core.model.apps.requests import Request, RequestEvent
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.usage import Usage
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.waiting.blockers import StoppedQueue
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, UserGroup
from licorne_core.values.slices import Tuning
from licorne_core.values.timers import Due, Timer, Timers
from support.core.builders import ask
from support.core.trees import whole_tree

APP = AppId("app")
TIMER = Timer(Due.ESCALATE, APP)


class World:
    """One application with ask groups by size, and the clock of its partition."""

    def __init__(self) -> None:
        """Start without asks."""
        tree = whole_tree(QueueConfig(name="root", queues=(QueueConfig(name="a"),)))
        leaf = tree.get("root.a")
        assert leaf is not None
        self.app = Application(APP, leaf.path, UserGroup("ann", ()), {}, 0.0)
        self.app.leaf = leaf
        assert leaf.parent is not None
        leaf.parent.ranking.put(leaf, (0,))
        leaf.ranking.put(self.app, (0,))
        self.timers: Timers[Timer] = Timers()
        nodes = NodeBook(NodeSortPolicy())
        index = NodeIndex(nodes, Tuning())
        wakeups = Wakeups(nodes, PartitionName("[rm]default"))
        self.waiting = wakeups.waiting
        self.dirty = Dirty(tree, index, wakeups, Usage(0.0))
        self.escalation = Escalation(self.dirty, self.waiting, self.timers)
        self.blocker = wakeups.blockers.get(StoppedQueue, leaf)
        self.now = 100.0
        self.requests: list[Request] = []

    def ask(
        self,
        size: int = 1,
        age: float = 0.0,
        priority: int = 0,
        required_node: str | None = None,
    ) -> Request:
        """Add a pending ask with this age in seconds."""
        self.app.arrivals += 1
        arrival = self.app.arrivals
        key = f"k{arrival}"
        wanted = ask(APP, key, priority=priority, required_node=required_node, vcore=size)
        request = Request(wanted, self.now - age, arrival)
        self.app.requests[request.key] = request
        self.requests.append(request)
        self.enter(request)
        return request

    def enter(self, request: Request) -> None:
        """Make the ask pending; it is ranked by the first ask of its group."""
        group = self.app.group_of(request.ask)
        self.app.enqueue(group, request, self.now)
        self.app.ranking.put(group, group.first()[:3])
        if ReservationRequest in group.remedy_requests:
            self.escalation.rank(group.remedy_requests[ReservationRequest], self.now)

    def leave(self, request: Request) -> None:
        """Allocate the ask."""
        request.follow(RequestEvent.ALLOCATE)
        group: AskGroup = request.group
        group.drop(request)
        if group.waiting:
            self.app.ranking.put(group, group.first()[:3])
        else:
            self.escalation.forget_group(group)
            self.app.ranking.discard(group)

    def want(self, request: Request) -> ReservationRequest:
        """Record that the group of the ask has found no node."""
        group = self.app.group_of(request.ask)
        self.escalation.want(group, ReservationRequest, self.now)
        wants = group.remedy_requests[ReservationRequest]
        assert isinstance(wants, ReservationRequest)
        return wants

    def reserve(self, request: Request, *, ends: bool = False) -> None:
        """Set or remove the reserved node of an ask."""
        wants = self.app.group_of(request.ask).remedy_requests.get(ReservationRequest)
        if ends:
            request.reservation = None
            if wants is not None:
                wants.add(request.place, self.now)
        else:
            request.reservation = reserved(request.key)
        if wants is not None:
            self.escalation.rank(wants, self.now)

    def wait(self, seconds: float) -> None:
        """Advance the time, and process each deadline."""
        end = self.now + seconds
        while (deadline := self.timers.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            assert self.timers.take_due(self.now) == TIMER
            self.escalation.on_time(self.app, self.now)
            self.dirty.open_blockers()
        self.now = end

    def ready(self, group: AskGroup) -> list[Request]:
        """The asks of a group that may have a node reserved now, in order."""
        asks = [r for r in self.requests if r.is_pending and self.app.group_of(r.ask) is group]
        age = 0.0 if group.ask_class.required_node else RESERVATION_AGE
        old = [r for r in asks if r.reservation is None and self.now - r.create_time >= age]
        return sorted(old, key=lambda request: request.place)


def reserved(key: AllocationKey) -> Reservation:
    """A reservation of a node for an ask."""
    return Reservation(APP, key, NodeId("n"), 0.0, required=False, items=())


steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "want", "reserve", "end", "leave", "wait", "try"]),
        st.integers(0, 9),
        st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0]),
    ),
    max_size=60,
)


def carry_out(world: World, what: str, number: int, seconds: float) -> None:
    """Apply one step to the world; `number` selects the ask."""
    if what == "ask":
        world.ask(size=1 + number % 2, age=seconds)
    elif what == "wait":
        world.wait(seconds)
    elif world.requests:
        request = world.requests[number % len(world.requests)]
        group = world.app.group_of(request.ask)
        if what == "want" and group.waiting:
            world.want(request)
        elif what == "reserve" and request.is_pending and request.reservation is None:
            world.reserve(request)
        elif what == "end" and request.is_pending and request.reservation is not None:
            world.reserve(request, ends=True)
        elif what == "leave" and request.is_pending and request.reservation is None:
            world.leave(request)
        elif what == "try" and ReservationRequest in group.remedy_requests:
            world.escalation.rank(group.remedy_requests[ReservationRequest], world.now)


@given(steps)
def test_a_reservation_request_is_ranked_once_an_ask_is_old_enough(
    history: list[tuple[str, int, float]],
) -> None:
    """A reservation request is ranked by its first old enough ask; without such an ask it has a deadline."""
    world = World()
    for step in history:
        carry_out(world, *step)
        for group in world.app.groups.values():
            wants = group.remedy_requests.get(ReservationRequest)
            if wants is None:
                continue
            ready = world.ready(group)
            entry = world.app.ranking.entry(wants)
            if ready:
                assert entry is not None
                assert entry.key <= (*ready[0].place[:3], 1)
            world.escalation.rank(wants, world.now)
            entry = world.app.ranking.entry(wants)
            assert (entry.key if entry else None) == ((*ready[0].place[:3], 1) if ready else None)
        first = world.app.deadlines.next_deadline()
        assert world.timers.deadline(TIMER) == first
        assert first is None or first > world.now


def test_the_request_of_an_ask_that_requires_its_node_is_ranked_at_once() -> None:
    """The reservation request of an ask that requires its node is ranked at once (spec § 8.7)."""
    world = World()
    wants = world.want(world.ask(required_node="n"))
    assert wants in world.app.ranking
    assert TIMER not in world.timers


def test_a_change_of_the_first_old_enough_ask_unparks_the_request() -> None:
    """A reservation request is unparked exactly when its first old enough ask changes."""
    world = World()
    low = world.ask(age=5.0)
    world.ask(age=1.5, priority=-1)
    high = world.ask(age=1.0, priority=1)
    wants, blocker = world.want(low), world.blocker
    world.waiting.park(wants, blocker)
    world.wait(0.5)
    assert (wants.first(), wants.blocker) == (low.place, blocker)
    world.wait(0.5)
    assert (wants.first(), wants.blocker) == (high.place, None)


def test_a_group_without_asks_has_no_reservation_request() -> None:
    """The reservation request, its rank and its deadline end with the last ask of the group."""
    world = World()
    request = world.ask()
    wants = world.want(request)
    world.waiting.park(wants.group, world.blocker)
    assert TIMER in world.timers
    world.leave(request)
    assert (wants.group.remedy_requests, wants in world.app.ranking) == ({}, False)
    assert TIMER not in world.timers


def test_a_removed_application_has_no_deadline() -> None:
    """A removed application has no timer."""
    world = World()
    world.want(world.ask())
    world.escalation.forget(world.app)
    assert TIMER not in world.timers
