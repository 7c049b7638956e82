"""One scrape for all workers of a host: the merged texts of all.

Each sample gets the label `worker`. Samples are neither summed nor left out: a sum would fall while a worker
restarts or does not answer, which Prometheus takes for a reset counter, and two workers have an
RM for a moment while it is moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from licorne_server.http.families import Families, counter, gauge
from licorne_server.process.coordination import worker_number
from licorne_server.reads.members import Members
from licorne_server.store.coordination.workers import Known

LINES = 200
"""Lines of a text that are processed in one step."""

PATH = "/metrics"
_HELP = "# HELP "


@dataclass(frozen=True, slots=True)
class _Scraped:
    """A worker, and whether its metrics are in this answer."""

    known: Known
    scraped: bool


_WORKERS = (
    gauge("licorne_worker_scraped", "1 if this answer has the metrics of the worker.", "scraped"),
    gauge(
        "licorne_worker_looping",
        "1 while the worker fails again and again.",
        lambda of: int(of.known.looping),
    ),
    counter("licorne_worker_restarts_total", "Restarts since the supervisor's start.", "known.restarts"),
)


@dataclass(slots=True)
class _Block:
    """One metric family in all texts."""

    heading: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


class Merge:
    """The texts of several workers, by family."""

    def __init__(self) -> None:
        """Start without a text."""
        self._blocks: dict[str, _Block] = {}

    def add(self, text: str, worker: int) -> Iterator[None]:
        """Add the text of a worker in steps; the caller may pause at each."""
        label = f'worker="{worker}"'
        block = _Block()
        is_new = False
        for number, line in enumerate(text.splitlines(keepends=True)):
            if not number % LINES:
                yield
            if line.startswith(_HELP):
                name = line.split(" ", 3)[2]
                is_new = name not in self._blocks
                block = self._blocks.setdefault(name, _Block())
            if not line.startswith("#"):
                block.samples.append(_labelled(line, label))
            elif is_new:
                block.heading.append(line)

    def lines(self) -> Iterator[str]:
        """All families by name, each with its heading."""
        for _, block in sorted(self._blocks.items()):
            yield "".join(block.heading)
            for start in range(0, len(block.samples), LINES):
                yield "".join(block.samples[start : start + LINES])


def _labelled(line: str, label: str) -> str:
    """A sample line with one more label."""
    brace, blank = line.find("{"), line.find(" ")
    if 0 <= brace < blank:
        return f"{line[: brace + 1]}{label},{line[brace + 1 :]}"
    return f"{line[:blank]}{{{label}}}{line[blank:]}"


async def texts_of_others(members: Members) -> Mapping[int, str]:
    """The metrics of all other workers that answer in time, by their numbers."""
    found = await members.parts(PATH, members.own_right, bytes.decode)
    return {worker_number(member.name): text for member, text in found if text is not None}


def merged(texts: Mapping[int, str], known: Sequence[Known]) -> Iterator[str]:
    """The answer to a scrape in pieces, with an empty one at each step."""
    merge = Merge()
    for worker, text in sorted(texts.items()):
        for _ in merge.add(text, worker):
            yield ""
    yield from merge.lines()
    families = Families()
    for each in known:
        scraped = _Scraped(each, each.worker in texts)
        families.add(_WORKERS, scraped, ("worker",), (str(each.worker),))
    yield from families.lines(openmetrics=False)
