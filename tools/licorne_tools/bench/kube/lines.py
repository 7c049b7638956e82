"""Measured loads: a number of pods of a shape, at a rate, on a number of nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from licorne_tools.kube.schedulers import SchedulerKind

SHAPES: Mapping[str, str] = {
    "pods": "plain pods, which the load creates itself",
    "deployments": "Deployments of 50 pods",
    "tolerations": "the same; every node has a taint that they tolerate",
    "node-affinity": "the same; each must be in a certain one of three zones",
    "pod-affinity": "the same; each must be in the zone of the first one",
    "anti-affinity": "the same; each pod of a Deployment must be on a node of its own",
    "priority": "the same, of three priority classes",
}
"""The shapes of pods by name. The Go program `kubeload` uses the same names."""
REPLICAS = 50
ZONES = 3
FLOOD = 0
"""The rate for pods that are created as fast as the API server accepts them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the measurements. `rate` is in pods per second, or `FLOOD`."""

    shape: str
    nodes: int
    pods: int
    rate: int = FLOOD

    @property
    def name(self) -> str:
        """``pods, flood of 2,000, 500 nodes``."""
        pace = f"{self.pods:,} at {self.rate:,} a second" if self.rate else f"flood of {self.pods:,}"
        return f"{self.shape}, {pace}, {self.nodes:,} nodes"

    @property
    def replicas(self) -> int:
        """Number of pods of a Deployment: at most half the nodes, so that each pod has a choice of nodes."""
        return max(1, min(REPLICAS, self.nodes // 2))

    @property
    def zones(self) -> int:
        """Number of zones: few enough that none is empty."""
        return min(ZONES, self.nodes)


LINES = (
    Line("pods", 500, 2_000),
    Line("pods", 1_000, 10_000),
    *(Line("pods", 500, 1_000, rate) for rate in (50, 100, 200)),
    *(Line(shape, 500, 2_000) for shape in SHAPES if shape != "pods"),
)
"""All rows with a target."""


def lines(shape: str, rate: int, nodes: int | None, pods: int | None) -> list[Line]:
    """The row of a shape; by default with nodes and pods of the first row of `LINES`."""
    usual = LINES[0]
    return [Line(shape, nodes or usual.nodes, pods or usual.pods, rate)]


def every(nodes: int | None, pods: int | None) -> list[Line]:
    """All rows, with the given size if there is one, without duplicates."""
    scaled = (replace(each, nodes=nodes or each.nodes, pods=pods or each.pods) for each in LINES)
    return list(dict.fromkeys(scaled))


TURN = (SchedulerKind.KUBE, SchedulerKind.LICORNE, SchedulerKind.OLDER)
"""The schedulers in the order of the first run."""


def turns(kinds: tuple[SchedulerKind, ...], runs: int) -> Iterator[tuple[int, SchedulerKind]]:
    """The scheduler of each turn, with the number of the run from 1.

    The order is reversed with each run: otherwise the last scheduler would always lose if the machine becomes
    slower.
    """
    for number in range(1, runs + 1):
        for kind in kinds if number % 2 else reversed(kinds):
            yield number, kind
