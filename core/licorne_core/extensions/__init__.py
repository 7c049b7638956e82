"""The features that a partition can do without, each in a folder of its own.

A folder has some of these modules:

    extension.py  a class `Extension`, which takes part at the points of `licorne_core/points.py`
    keys.py       the keys and tags that turn it on, which `config` and `values` read
    rules.py      rules that may stop asks, which the pass asks for
    shared.py     a class `Shared` with what all partitions of a core have in common (`model/core.py`)
    handlers.py   what its commands, decisions and deadlines do
    messages.py   its commands, their effects, and codes of its quotas
    reports.py    the fields that it adds to reports, which `views` read

This table is closed: its order is that at every point.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

NAMES = (
    "ageing",
    "autoscaler",
    "backfill",
    "budgets",
    "notice",
    "quota_change",
    "stops",
    "hours",
    "topology",
    "fair_memory",
    "drains",
    "holds",
    "queue_stops",
    "back_off",
    "state_aware",
    "elastic",
    "opening_hours",
)

BITS = {name: 1 << number for number, name in enumerate(NAMES, 4)}
"""The bit of each extension in the `interests` of a thing; the first ones are the kernel's own (`rules`)."""


def modules(name: str) -> Iterator[tuple[str, Any]]:
    """The modules of that name, each with the name of its extension, in the order of the table."""
    for extension in NAMES:
        place = f"{__name__}.{extension}.{name}"
        if find_spec(place) is not None:
            yield extension, import_module(place)


def kinds() -> tuple[tuple[str, int, Any], ...]:
    """Name, bit and class of each extension, in the order of the table."""
    return tuple((name, BITS[name], module.KIND) for name, module in modules("extension"))
