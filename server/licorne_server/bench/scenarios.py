"""What can be measured, by name. The shapes are those that schedulers of this kind publish."""

from dataclasses import dataclass, replace
from enum import Enum
from math import ceil


class Kind(Enum):
    """How a scenario is run."""

    BURST = "everything at once"
    BLOCKED = "everything at once, behind asks that fit nowhere"
    LATENCY = "one ask after the other at a steady rate"
    IDLE = "a full cluster and nothing to do"
    TWO_RMS = "one RM's flood beside another RM's single asks"
    MEMORY = "everything waits, then everything at once"
    ASKED = "everything at once, and the RM decides which nodes will do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A shape: `queues` leaves with `apps` applications each with `asks` asks each."""

    name: str
    about: str
    kind: Kind = Kind.BURST
    queues: int = 1
    apps: int = 1
    asks: int = 1
    nodes: int = 5000
    sort: str = "fifo"

    @property
    def pods(self) -> int:
        """All asks that are to be placed."""
        return self.queues * self.apps * self.asks

    def scaled(self, *, nodes: int | None, pods: int | None, sort: str | None) -> "Scenario":
        """The same shape in another size: fewer asks first, then fewer applications and queues."""
        shape = replace(self, nodes=nodes or self.nodes, sort=sort or self.sort)
        if pods is None:
            return shape
        queues = min(self.queues, pods)
        apps = min(self.apps, pods // queues)
        return replace(shape, queues=queues, apps=apps, asks=pods // (queues * apps))

    @property
    def pods_per_node(self) -> int:
        """How many asks an evenly filled node takes."""
        return ceil(self.pods / self.nodes)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="shim", about="5 queues x 80 apps x 125 asks", queues=5, apps=80, asks=125),
        Scenario(name="core", about="2 queues x 1 app x 5,000 asks", queues=2, asks=5000),
        Scenario(name="onebigapp", about="one app with 20,000 asks", asks=20_000),
        Scenario(name="manyapps", about="1,000 apps x 10 asks in one queue", apps=1000, asks=10),
        Scenario(name="manyqueues", about="1,000 queues x 10 asks", queues=1000, asks=10),
        Scenario(
            name="blocked",
            about="100 asks that fit nowhere ahead of 10,000 that fit",
            kind=Kind.BLOCKED,
            asks=10_000,
        ),
        Scenario(name="latency", about="single asks, 200 a second", kind=Kind.LATENCY, asks=2000),
        Scenario(
            name="idle",
            about="CPU with a full cluster and 10,000 asks waiting",
            kind=Kind.IDLE,
            asks=10_000,
            nodes=1000,
        ),
        Scenario(
            name="tworms",
            about="latency of one RM while another sends 100,000 asks",
            kind=Kind.TWO_RMS,
            apps=100,
            asks=1000,
            nodes=1000,
        ),
        Scenario(
            name="memory",
            about="1,000,000 asks waiting, then placed",
            kind=Kind.MEMORY,
            apps=1000,
            asks=1000,
            nodes=10_000,
        ),
        Scenario(
            name="predicates",
            about="2 queues x 1 app x 10,000 asks, one node in ten refused by the RM",
            kind=Kind.ASKED,
            queues=2,
            asks=10_000,
        ),
    )
}
