"""The scenarios by name, with shapes that are published for schedulers of this kind."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from itertools import product
from math import ceil


class ScenarioKind(Enum):
    """The kinds of load."""

    BURST = "everything at once"
    BLOCKED = "everything at once, behind asks that fit nowhere"
    LATENCY = "one ask after the other at a steady rate"
    IDLE = "a full cluster and nothing to do"
    TWO_RMS = "one RM's flood beside another RM's single asks"
    MEMORY = "everything waits, then everything at once"
    ASKED = "everything at once, and the RM decides which nodes will do"
    GANG = "placeholders at once, and real allocations that take their places"
    PREEMPT = "a full cluster, and asks that others have to make way for"
    NOTICE = "a full cluster, and asks that others make way for without and with notice"
    STORM = "everything at once, without and with an ask that preemption cannot help"
    WIRE = "everything at once, to an echo"
    WIRE_LATENCY = "one ask after the other at a steady rate, to an echo"


BARE = (ScenarioKind.WIRE, ScenarioKind.WIRE_LATENCY)
"""The kinds of scenarios with an echoing server."""


class Wire(Enum):
    """The protocol between RM and server."""

    SI = "si"
    """The three streams of si.v1."""
    SESSION = "session"
    """One stream of licorne.v1.Session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How the RM answers predicate checks, and the predicate classes of asks."""

    tagged: bool = True
    """True if all asks share one predicate class; False if each has its own."""
    refused_percent: int = 0
    """Percentage of refused nodes."""
    delay: float = 0.0
    """Seconds from receiving a check to answering it."""

    def refuses(self, number: int) -> bool:
        """True if the RM refuses the node with this number. Refused nodes are distributed evenly."""
        return number * self.refused_percent % 100 < self.refused_percent

    def accepted(self, nodes: int) -> int:
        """The number of accepted nodes among the first `nodes`."""
        return sum(not self.refuses(number) for number in range(nodes))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A shape: `queues` leaves, each with `apps` applications, each with `asks` asks.

    `batch` is the number of items in each request.
    """

    name: str
    about: str
    kind: ScenarioKind = ScenarioKind.BURST
    _: KW_ONLY
    queues: int = 1
    apps: int = 1
    asks: int = 1
    nodes: int = 5000
    sort: str = "fifo"
    batch: int = 1000
    wire: Wire = Wire.SI
    asking: Asking = Asking()

    @property
    def pods(self) -> int:
        """The number of asks to be placed."""
        return self.queues * self.apps * self.asks

    def scaled(
        self,
        *,
        nodes: int | None = None,
        pods: int | None = None,
        sort: str | None = None,
        batch: int | None = None,
    ) -> "Scenario":
        """The same shape in another size. Fewer pods reduce first the asks, then applications and queues."""
        shape = replace(
            self,
            nodes=nodes or self.nodes,
            sort=sort or self.sort,
            batch=batch or self.batch,
        )
        if pods is None:
            return shape
        if self.kind is ScenarioKind.GANG:
            return shape.with_gangs(max(1, pods // self.asks), min(self.asks, pods))
        queues = min(self.queues, pods)
        apps = min(self.apps, pods // queues)
        return replace(shape, queues=queues, apps=apps, asks=pods // (queues * apps))

    def with_gangs(self, gangs: int, members: int) -> "Scenario":
        """The same shape with about `gangs` gangs of `members` members."""
        queues = min(self.queues, gangs)
        return replace(self, queues=queues, apps=gangs // queues, asks=members)

    @property
    def pods_per_node(self) -> int:
        """Number of asks on each accepted node if they are spread evenly, rounded up."""
        return ceil(self.pods / max(1, self.asking.accepted(self.nodes)))


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("shim", "5 queues x 80 apps x 125 asks", queues=5, apps=80, asks=125),
        Scenario("core", "2 queues x 1 app x 5,000 asks", queues=2, asks=5000),
        Scenario(
            "shim1",
            "shim with one item a request, over si.v1 and over a session",
            queues=5,
            apps=80,
            asks=125,
            batch=1,
        ),
        Scenario(
            "core1",
            "core with one item a request, over si.v1 and over a session",
            queues=2,
            asks=5000,
            batch=1,
        ),
        Scenario("onebigapp", "one app with 20,000 asks", asks=20_000),
        Scenario("manyapps", "1,000 apps x 10 asks in one queue", apps=1000, asks=10),
        Scenario("manyqueues", "1,000 queues x 10 asks", queues=1000, asks=10),
        Scenario("tenants", "100 queues x 10 apps x 10 asks", queues=100, apps=10, asks=10),
        Scenario(
            "blocked",
            "100 asks that fit nowhere ahead of 10,000 that fit",
            ScenarioKind.BLOCKED,
            asks=10_000,
        ),
        Scenario("latency", "single asks, 200 a second", ScenarioKind.LATENCY, asks=2000),
        Scenario(
            "idle",
            "CPU with a full cluster and 10,000 asks waiting",
            ScenarioKind.IDLE,
            asks=10_000,
            nodes=1000,
        ),
        Scenario(
            "tworms",
            "latency of one RM while another sends 100,000 asks",
            ScenarioKind.TWO_RMS,
            apps=100,
            asks=1000,
            nodes=1000,
        ),
        Scenario(
            "memory",
            "1,000,000 asks waiting, then placed",
            ScenarioKind.MEMORY,
            apps=1000,
            asks=1000,
            nodes=10_000,
        ),
        Scenario(
            "predicates",
            "2 queues x 1 app x 10,000 asks, and the RM is asked about nodes",
            ScenarioKind.ASKED,
            queues=2,
            asks=10_000,
            wire=Wire.SESSION,
            asking=Asking(refused_percent=10),
        ),
        Scenario(
            "gang",
            "1,000 gangs of 50: placeholders, then real allocations; both count",
            ScenarioKind.GANG,
            queues=10,
            apps=100,
            asks=50,
        ),
        Scenario(
            "preempt",
            "100 queues x 20 asks take back a full cluster, two victims each",
            ScenarioKind.PREEMPT,
            queues=100,
            asks=20,
        ),
        Scenario(
            "notice",
            "preempt over a session: victims stopped at once, and with notice",
            ScenarioKind.NOTICE,
            queues=100,
            asks=20,
            wire=Wire.SESSION,
        ),
        Scenario(
            "storm",
            "10 queues x 1,000 asks, without and with one that preemption cannot help",
            ScenarioKind.STORM,
            queues=10,
            asks=1000,
        ),
        Scenario(
            "wire",
            "core1 with an echo in place of the server",
            ScenarioKind.WIRE,
            queues=2,
            asks=5000,
            batch=1,
        ),
        Scenario(
            "wirelatency",
            "latency with an echo in place of the server",
            ScenarioKind.WIRE_LATENCY,
            asks=2000,
        ),
    )
}

SINGLE = ("shim1", "core1", "wire")
"""The scenarios with one item per request. They run over both wires unless the caller names one."""

PREDICATE_SHAPES = ((100, 5), (1000, 5), (3000, 5), (3000, 50), (10_000, 5000))
"""Pairs of the number of asks and the number of nodes."""
PREDICATE_DELAYS = (0.0, 0.05)


def over(scenario: Scenario, wire: Wire | None) -> list[Scenario]:
    """The scenario over each of its wires, or only over the given one.

    Empty if the scenario does not support the given wire.
    """
    if scenario.kind not in (ScenarioKind.BURST, ScenarioKind.WIRE):
        return [scenario] if wire in (None, scenario.wire) else []
    wanted = tuple(Wire) if scenario.name in SINGLE else (scenario.wire,)
    return [replace(scenario, wire=each) for each in ((wire,) if wire else wanted)]


def predicate_table(
    scenario: Scenario, shapes: Iterable[tuple[int, int]] = PREDICATE_SHAPES
) -> Sequence[Scenario]:
    """A predicate scenario in every shape, with and without a shared class, with and without a delay."""
    ways = product(shapes, (True, False), PREDICATE_DELAYS)
    return [
        replace(
            scenario.scaled(nodes=nodes, pods=pods),
            asking=replace(scenario.asking, tagged=tagged, delay=delay),
        )
        for (pods, nodes), tagged, delay in ways
    ]
