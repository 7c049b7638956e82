"""A job of a trace, in the units of the trace, and the errors of readers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from licorne_core.values.errors import shown


class LeftOut(StrEnum):
    """Reason why a job is left out, as the report shows it."""

    NEVER_STARTED = "ended before its start"
    NO_END = "no end in the trace"
    NO_RUNTIME = "no run time"
    NO_SIZE = "no size"
    NO_SUBMISSION = "no time of submission"
    PART_OF_A_JOB = "part of a job that has a row of its own"
    NOT_A_JOB = "a reservation, not a job"
    NO_SUCH_RESOURCE = "asks for a resource that no node has"
    TOO_LARGE = "a member is larger than every node"
    TOO_MANY = "more members than the cluster has room for"


class TraceError(Exception):
    """A file that cannot be read as a trace. The text names file, line and field."""

    def __init__(self, problem: str, *, file: str = "", line: int = 0, field: str = "") -> None:
        """Create an error; unknown parts are left out of the text."""
        place = f"{file}:{line}: " if line else f"{file}: " if file else ""
        super().__init__(f"{place}{f'{field}: ' if field else ''}{problem}")


def bad_value(text: str, wanted: str) -> str:
    """The text of the problem with a value of a wrong kind."""
    return f"'{shown(text)}' is no {wanted}" if text else f"no value, expected a {wanted}"


class Part(NamedTuple):
    """Equal members of a job. Amounts are those of one member; memory is in bytes, 0 if unknown.

    If the trace is `relative`, cores and memory are shares of its largest machine.
    """

    number: int
    cores: float
    gpus: float = 0.0
    memory: float = 0.0
    name: str = ""


class TraceJob(NamedTuple):
    """A job. Times and delays are in seconds; time 0 is the beginning of the trace's time.

    `requested` is the promised run time, 0 if unknown. `waited` is the wait in the recorded system, -1 if
    unknown.
    """

    job: str
    submit: float
    runtime: float
    parts: tuple[Part, ...]
    requested: float = 0.0
    waited: float = -1.0
    user: str = ""
    group: str = ""
    queue: str = ""
    partition: str = ""
    name: str = ""
    priority: int = 0


@dataclass(slots=True)
class Trace:
    """A trace that is being read.

    `jobs` may be iterated once. `skipped` has the number of jobs that were left out, by reason. `nodes` and
    `processors` are the size of the recorded cluster, 0 if unknown. These fields are complete after the last
    job. `splits` is True if a part is the total of a job, because the trace does not divide jobs into
    members. `gangs` is True if the members of a job start together.
    """

    kind: str
    jobs: Iterable[TraceJob] = ()
    skipped: Counter[LeftOut] = field(default_factory=Counter)
    nodes: int = 0
    processors: int = 0
    relative: bool = False
    splits: bool = False
    gangs: bool = True

    def kept(self, found: Iterable[TraceJob | LeftOut]) -> Iterator[TraceJob]:
        """Yield the jobs, and count those that are left out."""
        for each in found:
            if isinstance(each, LeftOut):
                self.skipped[each] += 1
            else:
                yield each


class TraceLine(NamedTuple):
    """A line of a file, without its end; `number` counts from 1."""

    number: int
    text: str


Lines = Iterator[TraceLine]
Files = tuple[Path, ...]
