"""The table of all features of a partition: standard ones first, then extensions.

`standard/__init__.py` and `extensions/__init__.py` list them, in the order in which they are called at every
point. The kernel names none of them: what a feature adds is in modules of the following names in the
feature's folder, which are looked up here. A folder has some of them:

    extension.py  a class `KIND`, an `Extension`, whose methods are the points of `licorne_core/points.py`
    keys.py       the keys and tags that turn it on, which `config` and `values` read
    rules.py      rules that may stop asks, which the pass evaluates
    shared.py     a class `SHARED` with state for all partitions of a core (`model/core.py`)
    handlers.py   handlers of its commands, decisions, deadlines and answers of the RM
    messages.py   its commands, their effects, and codes of its quotas
    reports.py    the fields that it adds to reports, which `views` read
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

TABLES: Final = ("licorne_core.standard", "licorne_core.extensions")
"""The packages of features, each with the names of its folders in `NAMES`."""

_PLACES: Final = tuple((name, f"{table}.{name}") for table in TABLES for name in import_module(table).NAMES)

BITS: Final = {name: 1 << number for number, (name, _) in enumerate(_PLACES, 4)}
"""The bit of each feature in the `interests` of an object; the kernel uses the lower bits (`rules`)."""


def modules(name: str) -> Iterator[tuple[str, Any]]:
    """The modules with the name, each with the name of its feature, in the order of the tables."""
    for feature, folder in _PLACES:
        place = f"{folder}.{name}"
        if find_spec(place) is not None:
            yield feature, import_module(place)


def table(module: str, name: str) -> Mapping[Any, Any]:
    """The mappings with the name in the modules of all features, merged."""
    whole: dict[Any, Any] = {}
    for feature, found in modules(module):
        own = getattr(found, name, {})
        both = whole.keys() & own.keys()
        assert not both, f"{feature} is not the first feature with {both} in {name}"
        whole |= own
    return whole


def kinds() -> tuple[tuple[str, int, Any], ...]:
    """Name, bit and class of each feature that hooks into partitions, in the order of the tables."""
    return tuple((name, BITS[name], module.KIND) for name, module in modules("extension"))
