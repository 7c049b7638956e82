"""Names by which the server shows what the core's extensions add, where they are other ones than theirs.

State shows a field of a report by its name, and REST a queue's in ``camelCase``. An extension that needs
other names has a module with some of these tables:

    QUEUE               fields of a queue in REST
    QUEUE_OPTIONAL      those that are left out when empty
    PARTITION           fields of a partition in REST
    PARTITION_ON_PAGE   and in the rows of the page
    SWITCHES            keys in differences of configurations
    CONFIG_KEYS         keys in the older core's spelling

The table of extensions is closed, as the core's.
"""

from importlib import import_module
from typing import Final

NAMES: Final = ("quota_change",)


def names(table: str) -> dict[str, str]:
    """One of these tables, of all extensions: fields by their names, and names of keys by the keys."""
    found: dict[str, str] = {}
    for name in NAMES:
        found |= getattr(import_module(f"{__name__}.{name}"), table, {})
    return found
