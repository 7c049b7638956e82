"""How what partitions keep is written, for each extension that keeps something."""

from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any, NamedTuple

from licorne_core.config.schema import QueueConfig
from licorne_server.engine.journal.forms import Form, Row
from licorne_server.wire.features import table


class KeptForm(NamedTuple):
    """How what one extension keeps is written in the documents of RMs, and in the journal."""

    name: str
    """Of its column in the journal, and of its list in documents."""
    owner: Form
    value: Form
    rows: tuple[Row, ...]
    """Records of the journal in owners and values."""
    write: Callable[[Any, Any], list[Any]]
    """The entry of an owner and a value in a list."""
    read: Callable[[Sequence[Any]], tuple[Any, Any]]
    """Owner and value of an entry; raises ValueError for what no server writes."""
    time: int
    """Place of the time in an entry: of too many entries those of the latest times are written."""
    is_wanted: Callable[[QueueConfig], bool]
    """True if something is kept of a queue that is configured so, or of those that are made in it."""
    life: Callable[[Any], float] = lambda _: inf
    """Seconds in which a value loses half of what it says: the shorter, the more often it is written."""


def kept_forms() -> dict[str, KeptForm]:
    """The forms by extensions; the last one's entries are left out last."""
    return table("KEPT")


def text(value: object) -> str:
    """A name; raises ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no name")
    return value


def number(value: object) -> float:
    """A number from 0 up; raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise ValueError(f"{value!r:.40} is no number from 0 up")
    return float(value)


def count(value: object) -> int:
    """A whole number from 0 up; raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r:.40} is no whole number from 0 up")
    return value
