"""Generated loads: random traces for three kinds of clusters. The same seed gives the same trace.

Each load is scaled so that its jobs would keep the share `busy` of the cluster's main resource in use if they
ran without gaps from the first submission to the last. As the last jobs run beyond the last submission, a
load of 1 is not an overload.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, pi, sin
from typing import Final

from licorne_server.lab.simulation.cluster import NodeKind, parse_nodes
from licorne_server.lab.simulation.rules import QueueRule, Rules
from licorne_server.lab.simulation.traces.model import Part, Trace, TraceJob

DEFAULT_JOBS: Final = 1_000
HOUR: Final = 3600.0
_DAY: Final = 24 * HOUR
_LIMITS: Final = tuple(HOUR * hours for hours in (0.25, 0.5, 1, 2, 4, 8, 12, 24))
"""Time limits that users request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A kind of load: its jobs, and its cluster and queues."""

    name: str
    summary: str
    draw: Callable[[random.Random, int], Iterator[TraceJob]]
    nodes: NodeKind
    busy: float
    rules: Rules | None = None
    config: str = ""
    splits: bool = True
    gangs: bool = True

    def trace(self, seed: int, jobs: int = DEFAULT_JOBS) -> Trace:
        """Generate the trace of a seed, with `jobs` jobs."""
        dice = random.Random(f"{self.name} {seed}")
        drawn = sorted(self.draw(dice, jobs), key=lambda job: job.submit)
        return Trace(self.name, self._scaled(drawn), splits=self.splits, gangs=self.gangs)

    def _scaled(self, drawn: Sequence[TraceJob]) -> list[TraceJob]:
        """The jobs, submitted at a rate that keeps the cluster busy."""
        by_gpu = any(part.gpus for job in drawn for part in job.parts)
        work = sum(
            job.runtime * part.number * (part.gpus if by_gpu else part.cores)
            for job in drawn
            for part in job.parts
        )
        amount = self.nodes.capacity["nvidia.com/gpu"] if by_gpu else self.nodes.capacity["vcore"] / 1000
        first, last = drawn[0].submit, drawn[-1].submit
        factor = work / (amount * self.nodes.number * self.busy) / max(1.0, last - first)
        return [job._replace(submit=round((job.submit - first) * factor, 3)) for job in drawn]


def _log_normal(dice: random.Random, median: float, spread: float, low: float, high: float) -> float:
    return round(min(high, max(low, exp(dice.gauss(log(median), spread)))), 3)


def _user(dice: random.Random, users: int) -> str:
    """A random user: the second has half as many jobs as the first, the third a third, and so on."""
    [number] = dice.choices(range(users), weights=[1 / (rank + 1) for rank in range(users)])
    return f"u{number:02}"


def _arrivals(dice: random.Random, jobs: int, burst: float) -> Iterator[float]:
    """Times of submission: more by day than by night, and in bursts with a mean of `burst` jobs."""
    now, made = 0.0, 0
    while made < jobs:
        rate = 1.0 + 0.5 * sin(2 * pi * now / _DAY)
        now += dice.expovariate(1.0) * 600.0 / rate
        size = 1
        while dice.random() > 1.0 / burst:
            size += 1
        for _ in range(min(size, jobs - made)):
            made += 1
            yield now
            now += dice.expovariate(1.0 / 10.0)


def _hpc(dice: random.Random, jobs: int) -> Iterator[TraceJob]:
    for number, submit in enumerate(_arrivals(dice, jobs, burst=4.0)):
        # A quarter of the jobs has one processor; the sizes of other jobs are mostly powers of two.
        processors = 1 if dice.random() < 0.25 else 2 ** min(9, 1 + int(dice.expovariate(0.35)))
        if processors > 4 and dice.random() < 0.15:
            processors -= dice.randrange(1, processors // 2)
        runtime = _log_normal(dice, 600.0, 1.4, 5.0, 4 * HOUR)
        wanted = runtime * dice.uniform(1.1, 6.0)
        requested = next((limit for limit in _LIMITS if limit >= wanted), _LIMITS[-1])
        yield TraceJob(
            job=f"job-{number}",
            submit=submit,
            runtime=runtime,
            parts=(Part(1, processors),),
            requested=requested,
            user=_user(dice, 12),
            queue="short" if requested <= HOUR else "long",
        )


_GPUS: Final = {1: 70.0, 2: 9.0, 4: 8.0, 8: 9.0, 16: 2.5, 32: 1.0, 64: 0.5}


def _learning(dice: random.Random, jobs: int) -> Iterator[TraceJob]:
    for number, submit in enumerate(_arrivals(dice, jobs, burst=2.5)):
        [gpus] = dice.choices(list(_GPUS), weights=list(_GPUS.values()))
        runtime = _log_normal(dice, 900.0 if gpus < 16 else HOUR, 1.5 if gpus < 16 else 0.6, 10.0, 8 * HOUR)
        yield TraceJob(
            job=f"job-{number}",
            submit=submit,
            runtime=runtime,
            parts=(Part(1, 4.0 * gpus, gpus),),
            user=_user(dice, 15),
            queue=f"vc{dice.randrange(4)}",
        )


def _mixed(dice: random.Random, jobs: int) -> Iterator[TraceJob]:
    for number, submit in enumerate(_arrivals(dice, jobs, burst=3.0)):
        [queue] = dice.choices(("services", "batch", "research"), weights=(20, 60, 20))
        if queue == "services":
            part = Part(dice.randrange(1, 5), dice.choice((1.0, 2.0, 4.0)))
            runtime = _log_normal(dice, 2 * HOUR, 0.6, 600.0, 6 * HOUR)
        elif queue == "batch":
            part = Part(dice.randrange(2, 9), dice.choice((1.0, 2.0, 4.0)))
            runtime = _log_normal(dice, 900.0, 1.0, 30.0, 2 * HOUR)
        else:
            part = Part(dice.randrange(1, 5), dice.choice((4.0, 8.0, 16.0)))
            runtime = _log_normal(dice, 1800.0, 1.0, 60.0, 4 * HOUR)
        yield TraceJob(
            job=f"{queue}-{number}",
            submit=submit,
            runtime=runtime,
            parts=(part,),
            user=_user(dice, 4) if queue == "services" else f"{queue[0]}{_user(dice, 8)}",
            queue=queue,
            priority=100 if queue == "services" else 0,
        )


_MIXED_QUEUES: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: services
            resources: {guaranteed: {vcore: 160}}
          - name: batch
            resources: {guaranteed: {vcore: 80}}
          - name: research
            resources: {guaranteed: {vcore: 80}}
"""

_EVERY: Final = (
    Load(
        name="hpc",
        summary="bursts of parallel jobs, whose sizes are mostly powers of two and whose requested times are "
        "up to six times the real ones",
        draw=_hpc,
        nodes=parse_nodes("32xvcore=32"),
        busy=1.3,
        rules=Rules(
            queues=(
                QueueRule(patterns={"queue": "short"}, to="", priority=10),
                QueueRule(patterns={}, to="", priority=0),
            )
        ),
    ),
    Load(
        name="learning",
        summary="many jobs of one GPU, few of up to 64 that run for hours; no requested times",
        draw=_learning,
        nodes=parse_nodes("16xvcore=64,nvidia.com/gpu=8"),
        busy=1.2,
    ),
    Load(
        name="mixed",
        summary="services, batch and research, each with a guarantee; services have the higher priority",
        draw=_mixed,
        nodes=parse_nodes("20xvcore=16"),
        busy=0.95,
        rules=Rules(otherwise="root.{queue}"),
        config=_MIXED_QUEUES,
        splits=False,
        gangs=False,
    ),
)

LOADS: Final[Mapping[str, Load]] = {load.name: load for load in _EVERY}
"""The loads by name."""
