"""Names by which the server shows what the core's extensions add, where they are other ones than theirs.

State shows a field of a report by its name, and REST a queue's in ``camelCase``. An extension that needs
other names has a module in `extensions` with some of these tables:

    QUEUE                 fields of a queue in REST
    QUEUE_OPTIONAL        those that are left out when empty
    QUEUE_REPORTS         fields of a queue with reports of their own (`Reports`), behind all others in REST
    USAGE_REPORTS         those of a user or a group in a queue
    QUEUE_METRICS         metrics of a queue (`QueueMetric`)
    APPLICATION           fields of an application in REST
    APPLICATION_OPTIONAL  those that are left out when empty
    APPLICATION_ON_PAGE   in the rows of the page
    APPLICATION_OF_STATE  and in State
    NODE                  fields of a node in REST
    NODE_OPTIONAL         those that are left out when empty
    NODE_ON_PAGE          in the rows of the page
    NODE_OF_STATE         and in State
    ALLOCATION            fields in REST of an allocation that stays, each of its `StayReport`
    ALLOCATION_ON_PAGE    in the rows of the page
    ALLOCATION_OF_STATE   and in State
    PARTITION             fields of a partition in REST
    PARTITION_ON_PAGE     and in the rows of the page
    SWITCHES              keys in differences of configurations
    CONFIG_KEYS           keys in the older core's spelling
    CALLS                 calls of Admin, each with its request and its response
    ACTS                  acts of the page by these calls, with fields of `http.ui.acts.Act`
    LISTS                 calls of State, each with what it lists
    PAGED                 those that page by themselves, each with its request and what makes the answer
    EXPLAINED             what completes the explanation of an ask in State
    REST_LISTS            lists of a partition in REST, by the ends of their paths (`RestList`)
    PAGE_LISTS            lists of the page, by the same (`PageList`)
    METRICS               of a partition: arguments of `http.families.Metric`
    MEASURED              what gives metrics that not every partition has (`Measured`)
    CENSUS_METRICS        of its census
    KEPT                  what outlives partitions, by its extension (`engine/journal/kept.py`)
    MARKS                 column and form of operators' marks in the journal, by its extension
    MARKED                marks for the core, of those that are stored, by its extension
    TERMS                 what reads a field of a stored mark that is no plain value
    COMMANDS              columns of its commands in the journal
    RECORDS               and of what they are made of
    SUMMED                what the sum of all decisions covers of its effects, by the classes
    UNMARKS               effects after which marks of applications are not needed, and these applications
    NOT_SUMMED            those of its effects that decide nothing
    TELLINGS              how an RM is told its effects, by the classes
    ANSWERS               readers of an RM's answers, by their fields in a request
    NOT_CARRIED           names and numbers of answers that a simulation leaves out, by the classes

A name stands for a field, or for a field and how it is shown.

One that takes calls of operators is a folder, which has them in `admin.py`: `METHODS`, a class that is
made of `services.admin.acts.Acts`, and gives its methods by name.

One that has paths of REST and of the page is a folder, too, which has them in `rest.py` as `ROUTES`.

The table of extensions is closed, as the core's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from licorne_core.views.queues import QueueReport

_ROOM = "licorne_server.extensions"

NAMES: Final = (
    "autoscaler",
    "backfill",
    "notice",
    "quota_change",
    "back_off",
    "fair_memory",
    "hours",
    "drains",
    "queue_stops",
    "holds",
    "stops",
    "budgets",
    "elastic",
    "topology",
)


class Listed(NamedTuple):
    """A call that lists what an extension of the core reports of a partition, in its `LISTS` by this name."""

    request: type[Message]
    name: str
    row: Callable[[Any], Any]
    response: Callable[[list[Any]], Message]


class Telling(NamedTuple):
    """How an RM is told an effect, if it wants that by this field of `Callbacks`."""

    opt_in: str
    payloads: Callable[[Any], Iterable[Any]]
    """The responses for it."""
    counts: Callable[[Any], Mapping[str, int]] = lambda _: {}
    """What the log counts of it."""


class RestList(NamedTuple):
    """What the core lists by this name of a partition, and of a queue and below; and its rows in REST."""

    name: str
    report: type
    names: Mapping[str, Any]
    optional: str = ""


class PageList(NamedTuple):
    """The same on the page: fields of `own` by their names, and others, with a type for how they are shown.

    A text is looked for in the fields of `texts`; rows are named by those of `named_by`.
    """

    name: str
    report: type
    own: str
    names: Mapping[str, str | tuple[str, Any]]
    texts: tuple[str, ...]
    named_by: tuple[str, ...]


class Measured(NamedTuple):
    """A metric of a partition: numbers or histograms by the value of the label, which may be missing."""

    kind: str
    name: str
    text: str
    label: str
    values: Mapping[str, Any]


class Reports(NamedTuple):
    """A field with a report of its own, or many: what State makes of each, and what of it REST leaves out."""

    field: str
    report: type
    message: type[Message]
    without: str = ""
    many: bool = False

    def unit(self, form: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """How the field is shown, if each report is shown in that form."""
        if self.many:
            return lambda reports: list(map(form, reports))
        return lambda report: None if report is None else form(report)


class QueueMetric(NamedTuple):
    """A metric of a queue: its text, whether by resource, and what reads its values off the report.

    It is given what tells whether a resource is shown. The values are by resource, or alone by an empty
    name; None for a queue without the metric.
    """

    text: str
    by_resource: bool
    read: Callable[[QueueReport, Callable[[str], bool]], Mapping[str, float] | None]


def modules(name: str) -> Iterator[Any]:
    """The modules of that name in folders of extensions."""
    for extension in NAMES:
        place = f"{_ROOM}.{extension}"
        if hasattr(import_module(place), "__path__") and find_spec(f"{place}.{name}") is not None:
            yield import_module(f"{place}.{name}")


def table(name: str) -> dict[Any, Any]:
    """One of these tables, of all extensions."""
    found: dict[Any, Any] = {}
    for extension in NAMES:
        found |= getattr(import_module(f"{_ROOM}.{extension}"), name, {})
    return found


def telling_of(effect: object) -> Telling | None:
    """How the effect is told to an RM; None for one that no RM is told."""
    return _tellings().get(type(effect))


@cache
def _tellings() -> dict[Any, Any]:
    return table("TELLINGS")


def rows(name: str) -> tuple[Any, ...]:
    """The same of a table whose rows have no names."""
    tables = (getattr(import_module(f"{_ROOM}.{extension}"), name, ()) for extension in NAMES)
    return tuple(row for found in tables for row in found)


def names(of: str) -> dict[str, Any]:
    """One of the tables of names: fields by their names, and names of keys by the keys."""
    return table(of)
