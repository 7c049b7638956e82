"""A core in this process and one RM, and the CPU time that the core takes for it.

The RM does what the engine's clients do: its items come in commands of the engine's size, and the
core decides in turns until it has nothing left to do.
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
from licorne_server.engine.inbox import ALONE
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.workload import SIZES, batched

START = 1_000_000.0
"""When the world begins, in unix seconds."""

NODES = 1000
CAPACITY: Resources = {"vcore": 10**9, "memory": 2**47}
"""A node with it takes whatever a dimension asks for."""

CLASSES = tuple(AskClass.of({"vcore": vcore, "memory": memory}) for vcore, memory in SIZES)
"""What is asked for in turn where the sizes do not matter."""

OPEN = {"maxapplications": 1_000_000, "maxresources": {"vcore": "1G", "memory": "1Ei"}}
"""A limit that counts and never blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU seconds: of taking in so many asks, and of deciding on so many allocations."""

    asks: int
    taking: float
    allocations: int
    deciding: float


def leaf(name: str = "leaf", sort: str = "fifo") -> dict[str, Any]:
    """The configuration of a leaf whose applications are in this order."""
    return {"name": name, "properties": {"application.sort.policy": sort}}


@cache
def parsed(text: str) -> SubmittedConfig:
    """The configuration, read once for all rounds."""
    return submitted(text)


class World:
    """A core with one RM that has nodes and applications, and asks that it is going to send."""

    waiting: list[Ask]
    """What is sent when time is taken."""
    wanted: int
    """How many allocations come of it, unless it is one for each that is sent."""
    placed: list[Allocation]
    """All allocations so far, in order."""
    hear: Callable[[Effect], Iterable[Command]] | None
    """What the RM says to an effect, if it says anything."""

    def __init__(self, text: str, *, rm: str = "bench", predicates: PredicatePolicy | None = None) -> None:
        """Register the RM with a configuration; no nodes and no applications yet."""
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
        """Register an RM, which may be another one than that of the world."""
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
        """Let the core come to rest, and count from zero."""
        self.settle()
        self.placed.clear()
        self._asks = 0
        self._taking = self._deciding = 0.0

    def cost(self) -> Cost:
        """What was counted since `begin`."""
        return Cost(
            asks=self._asks,
            taking=self._taking,
            allocations=len(self.placed),
            deciding=self._deciding,
        )

    def take(self, asks: Iterable[Ask]) -> None:
        """Send asks, and nothing is decided meanwhile."""
        for some in batched(asks, ALONE.items):
            command = UpdateAllocations(rm_id=self.rm_id, asks=some)
            begin = process_time()
            effects = self.scheduler.handle(command, self.now)
            self._taking += process_time() - begin
            self._asks += len(some)
            self._note(effects)

    def settle(self) -> None:
        """Let the core decide until it has nothing left to do at the present time."""
        while (deadline := self.scheduler.next_deadline()) is not None and deadline <= self.now:
            self.handle(Tick())

    def wait(self, seconds: float) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now + seconds
        while (deadline := self.scheduler.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.handle(Tick())
        self.now = end

    def handle(self, command: Command) -> None:
        """Hand in a command and its rest, and what the RM has to say to the effects."""
        begin = process_time()
        effects = self.scheduler.handle(command, self.now)
        self._deciding += process_time() - begin
        self._note(effects)

    def _note(self, effects: list[Effect]) -> None:
        """Keep what was placed, answer what has to be answered, and refuse to go on otherwise.

        Raises:
            BenchError: something of the world was not taken.
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
    """Send what the world has to send, and let the core place it."""
    world.take(world.waiting)
    world.settle()


def numbered(name: str, count: int) -> list[str]:
    """So many names."""
    return [f"{name}-{number:06}" for number in range(count)]


def application(
    name: str, queue: str = "root.leaf", user: str = "ann", groups: Sequence[str] = (), **more: Any
) -> NewApplication:
    """An application; in one leaf of one user, unless it is about these."""
    return NewApplication(app_id=AppId(name), queue_name=queue, user=UserGroup(user, tuple(groups)), **more)


def ask(app: str, key: str, ask_class: AskClass, **more: Any) -> Ask:
    """An ask."""
    return Ask(key=AllocationKey(f"{app}-{key}"), app_id=AppId(app), ask_class=ask_class, **more)


def asks_of(
    apps: Sequence[str], count: int, classes: Sequence[AskClass] = CLASSES, key: str = "ask"
) -> list[Ask]:
    """At least `count` asks, equally many of each application; those of all are mixed."""
    each = -(-count // len(apps))
    return [
        ask(app, f"{key}-{number:06}", classes[(number * len(apps) + place) % len(classes)])
        for number in range(each)
        for place, app in enumerate(apps)
    ]


def running(world: World, apps: Sequence[NewApplication]) -> list[str]:
    """Add applications and place an ask of each, so that none has to be started later."""
    names = [app.app_id for app in apps]
    world.add_applications(apps)
    world.take(asks_of(names, len(names), key="first"))
    world.settle()
    if len(world.placed) != len(names):
        raise BenchError(f"{len(world.placed)} of {len(names)} applications were started")
    return list(names)
