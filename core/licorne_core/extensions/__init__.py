"""The features that a partition can do without, each in a folder of its own.

Each folder has an `extension.py` with a class `Extension`, which takes part at the points of
`licorne_core/points.py`, and a `keys.py` with the properties that turn it on, which `config` reads. This
table is closed: its order is that at every point.
"""

from importlib import import_module
from typing import Any

NAMES = ("ageing",)


def kinds() -> tuple[tuple[str, Any], ...]:
    """Name and class of each extension, in the order of the table."""
    return tuple((name, import_module(f"{__name__}.{name}.extension").KIND) for name in NAMES)
