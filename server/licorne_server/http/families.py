"""Metrics by name, in the text formats of Prometheus and of OpenMetrics; and one scrape for all workers.

Prometheus' client library writes the metrics of the process only. All others are written in slices, and
some have older names that the library refuses for counters.

The texts of all workers of a host are merged, and each sample gets the label `worker`. Samples are neither
summed nor left out: a sum would fall while a worker restarts or does not answer, and Prometheus would see a
reset of the counter. While an RM moves, two workers report it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from licorne_core.values.counters import Histogram
from licorne_server.process.coordination import worker_number
from licorne_server.reads.members import Members
from licorne_server.store.coordination.ownership import Known

Labels = tuple[str, ...]
"""The names of labels, or their values in the same order."""

Source = str | Callable[[Any], Any]
"""A field of an object, such as ``counters.asks_tried``, or a function of the object."""


class Metric:
    """A row of a table of metrics: a name, its kind and text, and the source of its values.

    The source of a metric without labels is a number; with labels it is a mapping by their values.
    A mapping of sources has one source for each value of the label.
    """

    def __init__(
        self, kind: str, name: str, text: str, source: Source | Mapping[str, Source], *labels: str
    ) -> None:
        """Create a row; its `labels` follow the labels of the object."""
        self.kind = kind
        self.name = name
        self.text = text
        self.labels = labels
        self.samples: Callable[[Any], Mapping[Labels, float]] = _samples(source, labels)
        """Reads the values of an object, by the values of the labels."""


def _samples(
    source: Source | Mapping[str, Source], labels: Labels
) -> Callable[[Any], Mapping[Labels, float]]:
    if isinstance(source, Mapping):
        readers = [((value,), _reader(one)) for value, one in source.items()]
        return lambda of: {where: read(of) for where, read in readers}
    read = _reader(source)
    if not labels:
        return lambda of: {(): read(of)}
    return lambda of: {key if isinstance(key, tuple) else (key,): n for key, n in read(of).items()}


def _reader(source: Source) -> Callable[[Any], Any]:
    return attrgetter(source) if isinstance(source, str) else source


gauge = partial(Metric, "gauge")
"""A row for a value that goes up and down."""

counter = partial(Metric, "counter")
"""A row for a value that only grows; no suffix is added to the name."""


@dataclass(slots=True)
class Family:
    """The samples of one metric name, by the values of their labels."""

    name: str
    kind: str
    text: str
    labels: Labels
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, Histogram] = field(default_factory=dict)

    def add(self, where: Labels, value: float) -> None:
        """Add a value to the total of its labels."""
        self.values[where] = self.values.get(where, 0) + value

    def lines(self) -> Iterator[str]:
        """The samples; a histogram is one piece."""
        for where, value in self.values.items():
            yield f"{self.name}{_label_set(self.labels, where)} {value}\n"
        for where, histogram in self.histograms.items():
            yield "".join(_buckets(self.name, self.labels, where, histogram))


class Families:
    """Metrics by name. The first addition to a name decides its kind, text and labels."""

    def __init__(self) -> None:
        """Start without metrics."""
        self._by_name: dict[str, Family] = {}

    def add(self, metrics: Iterable[Metric], of: object, labels: Labels = (), where: Labels = ()) -> int:
        """Add a table of metrics of one object with these labels; returns the number of samples."""
        return sum(
            self.put(one.kind, one.name, one.text, (*labels, *one.labels), one.samples(of), where)
            for one in metrics
        )

    def put(
        self,
        kind: str,
        name: str,
        text: str,
        labels: Labels,
        values: Mapping[Labels, float],
        where: Labels = (),
    ) -> int:
        """Put values by their labels, which begin with `where`; return their number."""
        known = self.family(kind, name, text, labels).values
        for key, value in values.items():
            place = (*where, *key)
            known[place] = known.get(place, 0) + value
        return len(values)

    def histogram(self, name: str, text: str, labels: Labels, values: Mapping[Labels, Histogram]) -> None:
        """Add histograms, each read when its lines are written."""
        self.family("histogram", name, text, labels).histograms.update(values)

    def family(self, kind: str, name: str, text: str, labels: Labels) -> Family:
        """The family of a name, created if missing."""
        return self._by_name.setdefault(name, Family(name, kind, text, labels))

    def lines(self, *, openmetrics: bool) -> Iterator[str]:
        """All families by name with their headings, without the last line of OpenMetrics."""
        for name, family in sorted(self._by_name.items()):
            shown, kind = self._openmetrics_type(family) if openmetrics else (name, family.kind)
            yield f"# HELP {shown} {family.text}\n# TYPE {shown} {kind}\n"
            yield from family.lines()

    def _openmetrics_type(self, family: Family) -> tuple[str, str]:
        """Name and kind of a family in OpenMetrics.

        A counter's family is named without ``_total``. If another family has that name, or the counter's name
        has no ``_total``, the kind is ``unknown``.
        """
        if family.kind != "counter":
            return family.name, family.kind
        base = family.name.removesuffix("_total")
        is_free = base != family.name and base not in self._by_name
        return (base, "counter") if is_free else (family.name, "unknown")


def _buckets(name: str, labels: Labels, where: Labels, histogram: Histogram) -> Iterator[str]:
    """Lines of one histogram, all of the same moment."""
    counts = histogram.cumulative()
    bounds = [*map(repr, histogram.bounds), "+Inf"]
    for bound, count in zip(bounds, counts, strict=True):
        yield f"{name}_bucket{_label_set((*labels, 'le'), (*where, bound))} {count}\n"
    yield f"{name}_sum{_label_set(labels, where)} {histogram.total}\n"
    yield f"{name}_count{_label_set(labels, where)} {counts[-1]}\n"


def _label_set(labels: Labels, where: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{label}="{_escaped(text)}"' for label, text in zip(labels, where, strict=True))
    return f"{{{','.join(pairs)}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


LINES = 200
"""Lines of a text that are processed in one step."""

PATH = "/metrics"
_HELP = "# HELP "


@dataclass(frozen=True, slots=True)
class _Scraped:
    """A worker, and whether the answer contains its metrics."""

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
    """The answer to a scrape in pieces, with an empty piece at each step."""
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
