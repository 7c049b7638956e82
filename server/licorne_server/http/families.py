"""Metrics by name, in the text formats of scrapers: Prometheus' own, or OpenMetrics.

The metrics of the process come from Prometheus' client library. The others are written here: they
are made in slices, and some have older names that the library refuses for counters.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from licorne_server.telemetry.measures import Histogram

Labels = tuple[str, ...]
"""The names of labels, or their values in the same order."""


@dataclass(slots=True)
class Family:
    """The samples of one name, by the values of their labels."""

    name: str
    kind: str
    text: str
    labels: Labels
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, Histogram] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The samples, as many at a time as belong together."""
        for where, value in self.values.items():
            yield f"{self.name}{_label_set(self.labels, where)} {value}\n"
        for where, histogram in self.histograms.items():
            yield "".join(_buckets(self.name, self.labels, where, histogram))


class Families:
    """Metrics by name. The first addition to a name decides its kind, text and labels."""

    def __init__(self) -> None:
        """Start without metrics."""
        self._by_name: dict[str, Family] = {}

    def gauge(self, name: str, text: str, labels: Labels, values: Mapping[Labels, float]) -> None:
        """Add values of something that goes up and down."""
        self._add(Family(name, "gauge", text, labels), values)

    def counter(self, name: str, text: str, labels: Labels, values: Mapping[Labels, float]) -> None:
        """Add values of something that only grows; the name is shown as it is."""
        self._add(Family(name, "counter", text, labels), values)

    def histogram(self, name: str, text: str, labels: Labels, values: Mapping[Labels, Histogram]) -> None:
        """Add histograms; they are written as they are when their turn comes."""
        family = Family(name, "histogram", text, labels)
        self._by_name.setdefault(name, family).histograms.update(values)

    def sums(self, name: str, kind: str, text: str, labels: Labels, where: Labels, n: float) -> None:
        """Add to a value that may be there already, as several things share the name and labels."""
        values = self._by_name.setdefault(name, Family(name, kind, text, labels)).values
        values[where] = values.get(where, 0) + n

    def _add(self, family: Family, values: Mapping[Labels, float]) -> None:
        self._by_name.setdefault(family.name, family).values.update(values)

    def lines(self, *, openmetrics: bool) -> Iterator[str]:
        """All families by name, each with its heading, without the closing line of OpenMetrics."""
        for name, family in sorted(self._by_name.items()):
            shown, kind = self._openmetrics_type(family) if openmetrics else (name, family.kind)
            yield f"# HELP {shown} {family.text}\n# TYPE {shown} {kind}\n"
            yield from family.lines()

    def _openmetrics_type(self, family: Family) -> tuple[str, str]:
        """Name and kind of a family in OpenMetrics.

        A counter's family is named without ``_total``. If another family has that name, or there is
        no ``_total``, the kind is unknown.
        """
        if family.kind != "counter":
            return family.name, family.kind
        base = family.name.removesuffix("_total")
        is_free = base != family.name and base not in self._by_name
        return (base, "counter") if is_free else (family.name, "unknown")


def _buckets(name: str, labels: Labels, where: Labels, histogram: Histogram) -> Iterator[str]:
    """The lines of one histogram. They are all of one moment."""
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
