"""Forms of retained state: values of extensions that outlive a partition, in documents and in the journal."""

from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any, NamedTuple

from licorne_core.config.schema import QueueConfig
from licorne_server.engine.journal.forms import Form, Row
from licorne_server.wire.features import table


class KeptForm(NamedTuple):
    """How the retained state of one extension is written in the documents of RMs, and in the journal."""

    name: str
    """Name of its column in the journal, and of its list in documents."""
    owner: Form
    value: Form
    rows: tuple[Row, ...]
    """Types of the journal's records in owners and values."""
    write: Callable[[Any, Any], list[Any]]
    """Converts an owner and a value into an entry of the list."""
    read: Callable[[Sequence[Any]], tuple[Any, Any]]
    """Reads owner and value from an entry; raises ValueError for an entry that no server writes."""
    time: int
    """Index of the time in an entry: of too many entries the latest are written."""
    is_wanted: Callable[[QueueConfig], bool]
    """True if state is retained of a queue with this configuration, or of queues that are created in it."""
    life: Callable[[Any], float] = lambda _: inf
    """Half-life of a value's weight in seconds: the shorter, the more often it is written."""


def kept_forms() -> dict[str, KeptForm]:
    """The forms by extension; if there are too many entries, those of the last extension are dropped last."""
    return table("KEPT")


def text(value: object) -> str:
    """Check a text of an entry; raises ValueError for any other value."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no name")
    return value


def number(value: object) -> float:
    """Check a non-negative number of an entry; raises ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise ValueError(f"{value!r:.40} is no number from 0 up")
    return float(value)


def count(value: object) -> int:
    """Check a non-negative whole number of an entry; raises ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r:.40} is no whole number from 0 up")
    return value
