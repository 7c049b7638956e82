"""A core in this process with one RM, and the CPU time of the core.

Items are sent in commands of the engine's size, and the core decides in turns until nothing is due, as in a
server.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from time import process_time
from typing import Any

from licorne_core.config import SubmittedConfig, submitted
from licorne_core.messages.commands import (
    Command,
    NewApplication,
    NodeAction,
    NodeUpdate,
    PredicatePolicy,
    RegisterRm,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    ApplicationsAnswered,
    Effect,
    NodesAnswered,
    RegistrationFailed,
    Unfinished,
)
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Allocation, Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, RmId, UserGroup
from licorne_core.values.resources import Resources
from licorne_server.engine.engine import ALONE
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.workload import SIZES, batched

START = 1_000_000.0
"""Start of the world, in unix seconds."""

NODES = 1000
CAPACITY: Resources = {"vcore": 10**9, "memory": 2**47}
"""Capacity of a node with room for all asks of a dimension."""

CLASSES = tuple(AskClass.of({"vcore": vcore, "memory": memory}) for vcore, memory in SIZES)
"""Ask classes that are used in turn, for dimensions in which sizes do not matter."""

OPEN = {"maxapplications": 1_000_000, "maxresources": {"vcore": "1G", "memory": "1Ei"}}
"""A limit that is tracked but never reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Numbers of asks and allocations, with the CPU seconds of accepting asks and of deciding."""

    asks: int
    taking: float
    allocations: int
    deciding: float


def leaf(name: str = "leaf", sort: str = "fifo") -> dict[str, Any]:
    """The configuration of a leaf with this order of applications."""
    return {"name": name, "properties": {"application.sort.policy": sort}}


@cache
def parsed(text: str) -> SubmittedConfig:
    """The parsed configuration, cached for all rounds."""
    return submitted(text)


class World:
    """A core with one RM, its nodes and applications, and the asks to send."""

    waiting: list[Ask]
    """The asks that are sent during the measurement."""
    wanted: int
    """Expected number of allocations; 0 means one for each ask."""
    placed: list[Allocation]
    """All allocations so far, in order."""
    hear: Callable[[Effect], Iterable[Command]] | None
    """The RM's reaction to an effect; None for no reactions."""

    def __init__(self, text: str, *, rm: str = "bench", predicates: PredicatePolicy | None = None) -> None:
        """Register the RM with a configuration, without nodes and applications."""
        self.scheduler = Scheduler()
        self.rm_id = RmId(rm)
        self.now = START
        self.waiting = []
        self.wanted = 0
        self.placed = []
        self.hear = None
        self._asks = 0
        self._taking = self._deciding = 0.0
        self.register(self.rm_id, text, predicates)

    def register(self, rm_id: RmId, text: str, predicates: PredicatePolicy | None = None) -> None:
        """Register an RM, the first or another."""
        self.handle(RegisterRm(rm_id=rm_id, config=parsed(text), predicates=predicates))

    def add_nodes(
        self, count: int = NODES, capacity: Resources = CAPACITY, rm_id: RmId | None = None
    ) -> None:
        """Add nodes of one size."""
        nodes = [
            NodeUpdate(node_id=NodeId(name), action=NodeAction.CREATE, capacity=capacity)
            for name in numbered("node", count)
        ]
        for some in batched(nodes, ALONE.items):
            self.handle(UpdateNodes(rm_id=rm_id or self.rm_id, nodes=some))

    def add_applications(self, new: Iterable[NewApplication]) -> None:
        """Add applications."""
        for some in batched(new, ALONE.items):
            self.handle(UpdateApplications(rm_id=self.rm_id, new=some))

    def begin(self) -> None:
        """Let the core finish, and reset all counts."""
        self.settle()
        self.placed.clear()
        self._asks = 0
        self._taking = self._deciding = 0.0

    def cost(self) -> Cost:
        """The cost since `begin`."""
        return Cost(
            asks=self._asks,
            taking=self._taking,
            allocations=len(self.placed),
            deciding=self._deciding,
        )

    def take(self, asks: Iterable[Ask]) -> None:
        """Send asks without letting the core decide in between."""
        for some in batched(asks, ALONE.items):
            command = UpdateAllocations(rm_id=self.rm_id, asks=some)
            begin = process_time()
            effects = self.scheduler.handle(command, self.now)
            self._taking += process_time() - begin
            self._asks += len(some)
            self._note(effects)

    def settle(self) -> None:
        """Let the core decide until nothing is due at the current time."""
        while (deadline := self.scheduler.next_deadline()) is not None and deadline <= self.now:
            self.handle(Tick())

    def wait(self, seconds: float) -> None:
        """Advance the time from deadline to deadline."""
        end = self.now + seconds
        while (deadline := self.scheduler.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.handle(Tick())
        self.now = end

    def handle(self, command: Command) -> None:
        """Pass a command and its remainder to the core, then the reactions of the RM to the effects."""
        begin = process_time()
        effects = self.scheduler.handle(command, self.now)
        self._deciding += process_time() - begin
        self._note(effects)

    def _note(self, effects: list[Effect]) -> None:
        """Record allocations, and pass on the reactions of the RM.

        Raises:
            BenchError: the core refused an item.
        """
        for effect in effects:
            match effect:
                case AllocationsMade():
                    self.placed += effect.allocations
                case Unfinished():
                    self.handle(effect.rest)
                case AllocationsRejected(rejections=[first, *_]):
                    raise BenchError(f"ask {first.key}: {first.reason}")
                case ApplicationsAnswered(rejected=[app, *_]):
                    raise BenchError(f"application {app.app_id}: {app.reason}")
                case NodesAnswered(rejected=[node, *_]):
                    raise BenchError(f"node {node.node_id}: {node.reason}")
                case RegistrationFailed():
                    raise BenchError(effect.reason)
            for command in self.hear(effect) if self.hear else ():
                self.handle(command)


def place(world: World) -> None:
    """Send the asks of the world, and let the core place them."""
    world.take(world.waiting)
    world.settle()


def numbered(name: str, count: int) -> list[str]:
    """`count` numbered names, in alphabetical order."""
    return [f"{name}-{number:06}" for number in range(count)]


def application(
    name: str, queue: str = "root.leaf", user: str = "ann", groups: Sequence[str] = (), **more: Any
) -> NewApplication:
    """An application, by default in the only leaf and of the only user."""
    return NewApplication(app_id=AppId(name), queue_name=queue, user=UserGroup(user, tuple(groups)), **more)


def ask(app: str, key: str, ask_class: AskClass, **more: Any) -> Ask:
    """An ask with the id of its application in its key."""
    return Ask(key=AllocationKey(f"{app}-{key}"), app_id=AppId(app), ask_class=ask_class, **more)


def asks_of(
    apps: Sequence[str], count: int, classes: Sequence[AskClass] = CLASSES, key: str = "ask"
) -> list[Ask]:
    """At least `count` asks, equally many of each application; the applications alternate."""
    each = -(-count // len(apps))
    return [
        ask(app, f"{key}-{number:06}", classes[(number * len(apps) + place) % len(classes)])
        for number in range(each)
        for place, app in enumerate(apps)
    ]


def running(world: World, apps: Sequence[NewApplication]) -> list[str]:
    """Add applications, and place an ask of each, so that all of them run."""
    names = [app.app_id for app in apps]
    world.add_applications(apps)
    world.take(asks_of(names, len(names), key="first"))
    world.settle()
    if len(world.placed) != len(names):
        raise BenchError(f"{len(world.placed)} of {len(names)} applications were started")
    return list(names)
