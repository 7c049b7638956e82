"""Names under which the server publishes fields of extensions, if they differ from the core's names.

State shows a field of a report by its name, and REST a queue's in ``camelCase``. An extension that needs
other names has a module in `extensions` with some of these tables:

    QUEUE                 fields of a queue in REST
    QUEUE_OPTIONAL        fields that are left out when empty
    QUEUE_REPORTS         fields of a queue with reports of their own (`Reports`), after all others in REST
    USAGE_REPORTS         the same of a user or a group in a queue
    QUEUE_METRICS         metrics of a queue (`QueueMetric`)
    APPLICATION           fields of an application in REST
    APPLICATION_OPTIONAL  fields that are left out when empty
    APPLICATION_ON_PAGE   fields of an application in rows of the page
    APPLICATION_OF_STATE  fields of an application in State
    NODE                  fields of a node in REST
    NODE_OPTIONAL         fields that are left out when empty
    NODE_ON_PAGE          fields of a node in rows of the page
    NODE_OF_STATE         fields of a node in State
    ALLOCATION            fields in REST of an allocation that stays, read from its `StayReport`
    ALLOCATION_ON_PAGE    the same in rows of the page
    ALLOCATION_OF_STATE   the same in State
    PARTITION             fields of a partition in REST
    PARTITION_ON_PAGE     the same in rows of the page
    HOURS                 fields of resource-hours in State, each with its part of a `HoursRow`
    SWITCHES              keys in differences of configurations
    CONFIG_KEYS           keys in the older core's spelling
    CALLS                 calls of Admin, each with its request and its response
    ACTS                  acts of the page by these calls, with fields of `http.ui.acts.Act`
    LISTS                 calls of State, each with what it lists
    PAGED                 calls of State with paging of their own, each with its request and its class
    EXPLAINED             periodic work that completes explanations of asks in State, and `lists` of the core
                          by name, by classes
    REST_LISTS            lists of a partition in REST, by the last part of their paths (`RestList`)
    PAGE_LISTS            lists of the page, by the same part (`PageList`)
    METRICS               metrics of a partition: arguments of `http.families.Metric`
    MEASURED              functions for metrics that not every partition has (`Measured`)
    CENSUS_METRICS        metrics of a partition's census
    KEPT                  forms of state that outlives partitions, by extension (`engine/journal/forms.py`)
    MARKS                 column and form of operators' marks in the journal, by extension
    MARKED                functions that turn stored marks into marks for the core, by extension
    TERMS                 readers of fields of a stored mark that are no plain values
    COMMANDS              columns of the extension's commands in the journal
    RECORDS               columns of the records in these commands
    SUMMED                fields of the extension's effects that the digest of decisions covers, by class
    UNMARKS               effects that end the need for marks of applications, each with a function for these
    NOT_SUMMED            effects of the extension that decide nothing
    TELLINGS              messages to an RM for the extension's effects, by class
    ANSWERS               readers of an RM's answers, by their fields in a request
    NOT_CARRIED           names and numbers of answers that a simulation leaves out, by class

A name maps to a field, or to a field and its conversion.

An extension with calls for operators is a folder, with the calls in `admin.py`: `METHODS`, a class that is
constructed with `services.admin.acts.Acts`, and returns its methods by name.

An extension with paths of REST and of the page is a folder, too, with the paths in `rest.py` as `ROUTES`.

The table of extensions is fixed, like that of the core.
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
    """A call that lists the reports of an extension about a partition, from the table `LISTS` of the core."""

    request: type[Message]
    name: str
    row: Callable[[Any], Any]
    response: Callable[[list[Any]], Message]


class Telling(NamedTuple):
    """The messages to an RM for an effect, if the RM has opted in by this field of `Callbacks`."""

    opt_in: str
    payloads: Callable[[Any], Iterable[Any]]
    """Makes the responses for an effect."""
    counts: Callable[[Any], Mapping[str, int]] = lambda _: {}
    """Counts for the log, by name."""


class RestList(NamedTuple):
    """A list of the core by name, for a partition or a queue with its descendants; and its rows in REST."""

    name: str
    report: type
    names: Mapping[str, Any]
    optional: str = ""


class PageList(NamedTuple):
    """A list of the core on the page: fields of `own` by name, and other columns with types for their format.

    A search covers the fields in `texts`; the fields in `named_by` identify a row.
    """

    name: str
    report: type
    own: str
    names: Mapping[str, str | tuple[str, Any]]
    texts: tuple[str, ...]
    named_by: tuple[str, ...]


class Measured(NamedTuple):
    """A metric of a partition: numbers or histograms by value of the label; a partition may lack it."""

    kind: str
    name: str
    text: str
    label: str
    values: Mapping[str, Any]


class Reports(NamedTuple):
    """A field whose value is one report or several: its form in State, and the fields that REST omits."""

    field: str
    report: type
    message: type[Message]
    without: str = ""
    many: bool = False

    def unit(self, form: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The conversion of the field, made from the conversion of a single report."""
        if self.many:
            return lambda reports: list(map(form, reports))
        return lambda report: None if report is None else form(report)


class QueueMetric(NamedTuple):
    """A metric of a queue: its help text, whether it is by resource, and the function that reads it.

    The function gets a test whether a resource is shown. The values are by resource, or a single value with
    an empty name; None for a queue without the metric.
    """

    text: str
    by_resource: bool
    read: Callable[[QueueReport, Callable[[str], bool]], Mapping[str, float] | None]


def modules(name: str) -> Iterator[Any]:
    """The modules of this name in the folders of extensions."""
    for extension in NAMES:
        place = f"{_ROOM}.{extension}"
        if hasattr(import_module(place), "__path__") and find_spec(f"{place}.{name}") is not None:
            yield import_module(f"{place}.{name}")


def table(name: str) -> dict[Any, Any]:
    """The tables of this name, merged over all extensions."""
    found: dict[Any, Any] = {}
    for extension in NAMES:
        found |= getattr(import_module(f"{_ROOM}.{extension}"), name, {})
    return found


def telling_of(effect: object) -> Telling | None:
    """The messages to an RM for an effect; None for an effect without messages."""
    return _tellings().get(type(effect))


@cache
def _tellings() -> dict[Any, Any]:
    return table("TELLINGS")


def rows(name: str) -> tuple[Any, ...]:
    """The tables of this name, which have no keys, merged over all extensions."""
    tables = (getattr(import_module(f"{_ROOM}.{extension}"), name, ()) for extension in NAMES)
    return tuple(row for found in tables for row in found)


def names(of: str) -> dict[str, Any]:
    """The tables of names, merged: fields by their published names, or names of keys by key."""
    return table(of)
