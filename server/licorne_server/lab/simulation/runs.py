"""Runs of one workload under several configurations, and their figures side by side."""

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from licorne_core.config import load
from licorne_core.config.schema import QueueConfig
from licorne_core.scheduler import Scheduler
from licorne_core.values.slices import Tuning
from licorne_server.lab.simulation.cluster import NodeKind, total
from licorne_server.lab.simulation.figures import Figures, figures_of
from licorne_server.lab.simulation.measures import Measures
from licorne_server.lab.simulation.playing import DEFAULT_GANG_TIMEOUT, Playing, RunEnd
from licorne_server.lab.simulation.policies import Policy, QueueLayout, made_config, with_policy
from licorne_server.lab.simulation.rules import Rules
from licorne_server.lab.simulation.traces.model import Trace, TraceJob
from licorne_server.lab.simulation.workload import Workload, workload_of

SAMPLE: Final = 60.0
"""Seconds between two samples of the measures."""
_SELDOM: Final = Tuning(inspection_time=86_400.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration of an operator, and the name of its file."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Common settings of all runs of one comparison. Without `rules` the policy determines the queues."""

    nodes: Sequence[NodeKind]
    rules: Rules | None = None
    gang_timeout: float = DEFAULT_GANG_TIMEOUT
    load: float = 1.0
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A named run with the configuration that was played; `is_made` is True if it was generated."""

    name: str
    config: str
    is_made: bool
    figures: Figures
    outcome: RunEnd
    workload: Workload


@dataclass(slots=True)
class TraceSource:
    """The jobs of a trace, read once; each run makes its own workload from them."""

    trace: Trace
    jobs: list[TraceJob] = field(init=False)

    def __post_init__(self) -> None:
        """Read the trace.

        Raises:
            OSError, TraceError: a file of it cannot be read.
        """
        self.jobs = list(self.trace.jobs)

    def workload(self, setup: Setup, layout: str) -> Workload:
        """The workload; jobs without a queue of their own use the queues of `layout`."""
        rules = setup.rules or Rules()
        queues = tuple(replace(rule, to=rule.to or layout) for rule in rules.queues)
        otherwise = rules.otherwise or layout
        trace = replace(self.trace, jobs=self.jobs, skipped=self.trace.skipped.copy())
        rules = replace(rules, queues=queues, otherwise=otherwise)
        return workload_of(trace, setup.nodes, rules, load=setup.load, limit=setup.limit)


def play(
    source: TraceSource,
    setup: Setup,
    policy: Policy | None,
    config: Config | None,
    played: MutableMapping[str, Run] | None = None,
) -> Run:
    """Play the jobs under a policy, a configuration, or a configuration with a policy.

    `played` has the earlier runs of the comparison by configuration, so that none is played twice.

    Raises:
        ConfigError: the configuration is invalid.
        SimulationError: the core has failed, or refuses a request.
        ValueError: no configuration can be generated for the queues of the jobs.
    """
    layout = QueueLayout.ONE if policy is None else policy.layout
    default = layout.value if config is None else only_leaf(config.text)
    workload = source.workload(setup, default)
    capacity = total(setup.nodes)
    if config is None:
        assert policy is not None
        text = made_config(policy, workload.queues, capacity)
    else:
        text = config.text if policy is None else with_policy(config.text, policy)
    parts = (None if config is None else config.name, None if policy is None else policy.name)
    name = " ".join(part for part in parts if part)
    if played is not None and text in played:
        return replace(played[text], name=name)
    measures: list[Measures] = []

    def watched(scheduler: Scheduler) -> Sequence[Measures]:
        measures.append(Measures(scheduler, step=SAMPLE))
        return measures

    playing = Playing(
        workload.jobs, setup.nodes, text, gang_timeout=setup.gang_timeout, tuning=_SELDOM, watchers=watched
    )
    outcome = playing.run()
    figures = figures_of(outcome, capacity, measures[0].summary(outcome.end))
    one = Run(
        name=name,
        config=text,
        is_made=config is None,
        figures=figures,
        outcome=outcome,
        workload=workload,
    )
    if played is not None:
        played[text] = one
    return one


def only_leaf(text: str) -> str:
    """The only leaf of a configuration; ``root.default`` if there are several.

    Raises:
        ConfigError: the configuration is invalid.
    """
    leaves = list(_leaves(load(text, required=True).partitions[0].root, "root"))
    return leaves[0] if len(leaves) == 1 else "root.default"


def _leaves(queue: QueueConfig, path: str) -> Sequence[str]:
    if not queue.queues:
        return [path]
    return [leaf for child in queue.queues for leaf in _leaves(child, f"{path}.{child.name}")]
