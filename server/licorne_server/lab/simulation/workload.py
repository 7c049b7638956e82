"""Converts the jobs of a trace to jobs of a simulation: queues, users, and members with their amounts."""

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest
from itertools import islice
from math import ceil
from operator import attrgetter
from typing import Final, NamedTuple

from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.names import is_queue_name
from licorne_core.values.resources import MEMORY, Resources
from licorne_server.lab.simulation.cluster import NodeKind, largest, room_for, room_on
from licorne_server.lab.simulation.rules import DEFAULT_SIZES, Division, Rules
from licorne_server.lab.simulation.traces.model import LeftOut, Part, Trace, TraceJob

MAX_MEMBERS: Final = 10_000
"""Maximum number of members of one job."""
UNKNOWN: Final = "unknown"
_NAMED: Final = {"user": "u", "group": "g", "queue": "q", "partition": "p", "name": "n"}
"""Fields that rules match, each with the letter that precedes a name that is a number."""
_EPOCH: Final = 1_000_000_000.0
"""Unix seconds of the first submission, if the trace has no dates."""


class Group(NamedTuple):
    """Equal members of a job: their number, and the size of each."""

    number: int
    ask_class: AskClass


class Job(NamedTuple):
    """A job to be played. Times are in unix seconds, delays in seconds.

    `runtime` is the actual run time, `declared` the declared one, 0 if there is none. `waited` is its wait
    in the trace, -1 if unknown. With `gang` its members start together.
    """

    job: str
    submit: float
    runtime: float
    declared: int
    queue: str
    user: str
    group: str
    priority: int
    gang: bool
    groups: tuple[Group, ...]
    waited: float

    @property
    def members(self) -> int:
        """Number of members."""
        return sum(group.number for group in self.groups)

    @property
    def amounts(self) -> Resources:
        """Amounts of all members together."""
        total: dict[str, int] = {}
        for group in self.groups:
            for name, amount in group.ask_class.items:
                total[name] = total.get(name, 0) + amount * group.number
        return total


class Workload(NamedTuple):
    """Jobs in the order of their submission, and the number of jobs left out, by reason.

    With `ignores_memory` requests of memory are ignored, because no node has any.
    """

    name: str
    jobs: tuple[Job, ...]
    left_out: Counter[LeftOut]
    ignores_memory: bool = False

    @property
    def queues(self) -> tuple[str, ...]:
        """Paths of the queues that jobs use, sorted."""
        return tuple(sorted({job.queue for job in self.jobs}))


def workload_of(
    trace: Trace, nodes: Sequence[NodeKind], rules: Rules, *, load: float = 1.0, limit: int = 0
) -> Workload:
    """The jobs of a trace; with a `limit` only the first ones.

    With a `load` above 1 all jobs are submitted in a shorter time, so there is more work per hour.

    Raises:
        OSError, TraceError: a file of the trace cannot be read.
    """
    submitted = attrgetter("submit")
    ordered = sorted(trace.jobs, key=submitted) if not limit else nsmallest(limit, trace.jobs, key=submitted)
    if not ordered:
        return Workload(trace.kind, (), trace.skipped)
    first = ordered[0].submit
    start = first if first >= _EPOCH else _EPOCH
    maker = _Maker(trace, nodes, rules)
    jobs: list[Job] = []
    seen: Counter[str] = Counter()
    for each in ordered:
        # An id may occur in several files.
        seen[each.job] += 1
        name = each.job if seen[each.job] == 1 else f"{each.job}.{seen[each.job]}"
        made = maker.job(each, name, start + (each.submit - first) / load)
        if isinstance(made, LeftOut):
            trace.skipped[made] += 1
        else:
            jobs.append(made)
    wants_memory = any(part.memory for each in ordered for part in each.parts)
    return Workload(trace.kind, tuple(jobs), trace.skipped, wants_memory and MEMORY not in largest(nodes))


class _Maker:
    """Makes jobs by the rules; equal amounts share one object."""

    def __init__(self, trace: Trace, nodes: Sequence[NodeKind], rules: Rules) -> None:
        """Create jobs for these nodes."""
        self._rules = rules
        self._nodes = nodes
        self._largest = largest(nodes)
        self._relative = trace.relative
        self._gangs = trace.gangs if rules.gang is None else rules.gang
        self._members = rules.members or (Division.NODE if trace.splits else Division.TRACE)
        self._classes: dict[tuple[tuple[str, int], ...], AskClass] = {}
        self._rooms: dict[AskClass, int] = {}

    def job(self, found: TraceJob, name: str, submit: float) -> Job | LeftOut:
        """The job, or the reason why it is left out."""
        groups: list[Group] = []
        for part in found.parts:
            made = self._groups(part)
            if isinstance(made, LeftOut):
                return made
            groups += made
        members = sum(group.number for group in groups)
        if members > MAX_MEMBERS:
            return LeftOut.TOO_MANY
        fields = {field: _name(getattr(found, field), letter) for field, letter in _NAMED.items()}
        queue, priority = self._rules.queue_of(fields)
        return Job(
            job=name,
            submit=submit,
            runtime=found.runtime,
            declared=ceil(found.requested),
            queue=queue,
            user=fields["user"],
            group=fields["group"],
            priority=found.priority if priority is None else priority,
            gang=self._gangs and members > 1,
            groups=tuple(groups),
            waited=found.waited,
        )

    def _groups(self, part: Part) -> list[Group] | LeftOut:
        """The members of a part. A member that is larger than every node is never placed."""
        sizes = [(part.number, self._amounts(part, 1.0))]
        if self._members is not Division.TRACE:
            sizes = self._divided(part)
        groups = []
        for count, amounts in sizes:
            if not amounts.keys() <= self._largest.keys():
                return LeftOut.NO_SUCH_RESOURCE
            ask_class = self._class_of(amounts)
            if ask_class not in self._rooms:
                self._rooms[ask_class] = room_for(self._nodes, ask_class.resources)
            if self._rooms[ask_class] == 0:
                return LeftOut.TOO_LARGE
            if self._gangs and self._rooms[ask_class] < count:
                return LeftOut.TOO_MANY
            groups.append(Group(count, ask_class))
        return groups or LeftOut.NO_SIZE

    def _divided(self, part: Part) -> list[tuple[int, Resources]]:
        """Members of the part: one per GPU, or else per processor, or as few members as the nodes allow."""
        units = ceil(part.number * (part.gpus or part.cores))
        each = 1.0 / (part.gpus or part.cores)
        most = 1
        if self._members is Division.NODE:
            unit = self._amounts(part, each)
            most = max(1, min(units, max(room_on(node, unit) for node in self._nodes)))
        full, rest = divmod(units, most)
        return [
            (count, self._amounts(part, each * size))
            for count, size in ((full, most), (1, rest))
            if count and size
        ]

    def _amounts(self, part: Part, share: float) -> Resources:
        """The amounts of a member that has this share of the part's resources."""
        amounts: dict[str, float] = {}
        sizes = self._rules.sizes
        for unit, number in (("processor", part.cores), ("gpu", part.gpus)):
            if unit == "processor" and self._relative and unit not in sizes:
                amounts["vcore"] = number * share * self._largest.get("vcore", 0)
                continue
            for name, amount in sizes.get(unit, DEFAULT_SIZES[unit]).items():
                amounts[name] = amounts.get(name, 0.0) + amount * number * share
        if part.memory and MEMORY not in amounts and MEMORY in self._largest:
            whole = self._largest[MEMORY] if self._relative else 1
            amounts[MEMORY] = part.memory * share * whole
        # Rounded to six digits before, so that a third of three processors is one.
        rounded = {name: ceil(round(amount, 6)) for name, amount in amounts.items()}
        return {name: amount for name, amount in rounded.items() if amount > 0}

    def _class_of(self, amounts: Resources) -> AskClass:
        key = tuple(sorted(amounts.items()))
        if key not in self._classes:
            self._classes[key] = AskClass(Shape(amounts))
        return self._classes[key]


def _name(text: str, letter: str) -> str:
    """A name of the trace as the core accepts it: a number gets a letter, invalid characters become ``_``."""
    if not text:
        return UNKNOWN
    name = f"{letter}{text}" if text[0].isdigit() else text
    if is_queue_name(name):
        return name
    return "".join(each if is_queue_name(each) else "_" for each in islice(name, 64))
