"""The properties `backfill` of root, and `reserve.after` of a leaf; and a tag of asks and applications."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from licorne_core.config.forms import WAIT, Property, member_of
from licorne_core.config.kinds import Key
from licorne_core.config.schema import NodeSortType, PartitionConfig
from licorne_core.extensions.backfill import NAME, RESERVE_AFTER, START_BY, Backfill
from licorne_core.values.tags import read_seconds

_MODES = member_of(Backfill)


def _read_mode(text: str) -> Any:
    mode = _MODES.read(text)
    return None if mode is Backfill.OFF else mode


_FORM = replace(_MODES, read=_read_mode)
_AFTER = replace(WAIT, read=lambda text: WAIT.read(text) or None)

PROPERTIES = (
    Property(
        Key(
            "backfill",
            _FORM.kind,
            "`easy`: the first blocked ask holds a shadow start, and others pass it if they end before, "
            "or take nothing that it needs; `conservative`: the first few blocked asks do",
            "8.5",
            _FORM.write(Backfill.OFF),
            _FORM.choices,
            where="root",
        ),
        NAME,
        _FORM,
        after="reservation.idle.timeout",
    ),
    Property(
        Key(
            "reserve.after",
            _AFTER.kind,
            "how long an ask waits before it may hold a shadow start",
            "8.5",
            _AFTER.write(0.0),
            allowed=_AFTER.allowed,
            where="leaf",
        ),
        RESERVE_AFTER,
        _AFTER,
        after="reservation.idle.timeout",
    ),
)


def notes_of(partition: PartitionConfig) -> Iterator[str]:
    """Backfill makes no room for large asks where small ones are spread over all nodes."""
    if partition.node_sort.type is NodeSortType.FAIR and partition.root.settings.of(NAME):
        yield (
            "backfill with nodesortpolicy fair leaves nodes partly free while larger asks wait: "
            "auto, the default, packs them then"
        )


TAGS = {START_BY: read_seconds}
