"""Metrics by name, in the text formats of Prometheus and of OpenMetrics.

Prometheus' client library writes the metrics of the process only. All others are made in slices, and
some have older names that the library refuses for counters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from licorne_core.values.counters import Histogram

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
        """`labels` follow the labels of the object."""
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
    """The samples of one name, by the values of their labels."""

    name: str
    kind: str
    text: str
    labels: Labels
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, Histogram] = field(default_factory=dict)

    def add(self, where: Labels, value: float) -> None:
        """Add a value to the sum of its labels."""
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
        """Add values by their labels, which begin with `where`; returns their number."""
        known = self.family(kind, name, text, labels).values
        for key, value in values.items():
            place = (*where, *key)
            known[place] = known.get(place, 0) + value
        return len(values)

    def histogram(self, name: str, text: str, labels: Labels, values: Mapping[Labels, Histogram]) -> None:
        """Add histograms, each read when its lines are written."""
        self.family("histogram", name, text, labels).histograms.update(values)

    def family(self, kind: str, name: str, text: str, labels: Labels) -> Family:
        """The family of a name."""
        return self._by_name.setdefault(name, Family(name, kind, text, labels))

    def lines(self, *, openmetrics: bool) -> Iterator[str]:
        """All families by name with their headings, without the last line of OpenMetrics."""
        for name, family in sorted(self._by_name.items()):
            shown, kind = self._openmetrics_type(family) if openmetrics else (name, family.kind)
            yield f"# HELP {shown} {family.text}\n# TYPE {shown} {kind}\n"
            yield from family.lines()

    def _openmetrics_type(self, family: Family) -> tuple[str, str]:
        """Name and kind of a family in OpenMetrics.

        A counter's family is named without ``_total``. If another family has that name, or the
        counter's name has no ``_total``, the kind is unknown.
        """
        if family.kind != "counter":
            return family.name, family.kind
        base = family.name.removesuffix("_total")
        is_free = base != family.name and base not in self._by_name
        return (base, "counter") if is_free else (family.name, "unknown")


def _buckets(name: str, labels: Labels, where: Labels, histogram: Histogram) -> Iterator[str]:
    """Lines of one histogram, all from the same moment."""
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
