"""Names by which the server shows what the core's extensions add, where they are other ones than theirs.

State shows a field of a report by its name, and REST a queue's in ``camelCase``. A module for each extension
that needs it has tables of other names: of fields of a QUEUE in REST, those that are left out when empty in
QUEUE_OPTIONAL; of fields of a PARTITION in REST, and PARTITION_ON_PAGE; of SWITCHES in differences of
configurations, and of CONFIG_KEYS in the older core's spelling. This table is closed, as the core's.
"""

from importlib import import_module
from typing import Final

NAMES: Final = ("quota_change",)


def names(table: str) -> dict[str, str]:
    """All of one of the tables: fields by the names that are shown, and names of keys by the keys."""
    found: dict[str, str] = {}
    for name in NAMES:
        found |= getattr(import_module(f"{__name__}.{name}"), table, {})
    return found
