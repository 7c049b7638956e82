"""The properties `backfill` of root with its order, and `reserve.after` of a leaf; and a tag of asks and
applications."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from licorne_core.config.forms import WAIT, Property, member_of
from licorne_core.config.kinds import Key
from licorne_core.config.schema import NodeSortType, PartitionConfig
from licorne_core.extensions.backfill import (
    NAME,
    ORDER,
    ORDER_UNTIL,
    RESERVE_AFTER,
    STANDARD_UNTIL,
    START_BY,
    Backfill,
    PassOrder,
)
from licorne_core.values.tags import read_seconds

_MODES = member_of(Backfill)


def _read_mode(text: str) -> Any:
    mode = _MODES.read(text)
    return None if mode is Backfill.OFF else mode


_ORDERS = member_of(PassOrder)


def _read_order(text: str) -> Any:
    order = _ORDERS.read(text)
    return None if order is PassOrder.ARRIVAL else order


_FORM = replace(_MODES, read=_read_mode)
_ORDER = replace(_ORDERS, read=_read_order)
_AFTER = replace(WAIT, read=lambda text: WAIT.read(text) or None)

PROPERTIES = (
    Property(
        Key(
            "backfill",
            _FORM.kind,
            "`easy`: the first blocked ask holds a shadow start, and others pass it if they end before, "
            "or take nothing that it needs; `conservative`: the first few blocked asks hold one each, "
            "planned before, between or after the others",
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
            "backfill.order",
            _ORDER.kind,
            "`shortest`: while all planned starts are held, applications of a `fifo` leaf are tried in the "
            "order of their expected runtimes: the mean of the user's last two applications, and at most the "
            "declared one. Higher priorities still go first",
            "8.5",
            _ORDER.write(PassOrder.ARRIVAL),
            _ORDER.choices,
            where="root",
        ),
        ORDER,
        _ORDER,
        after="backfill",
        needs="backfill",
    ),
    Property(
        Key(
            "backfill.order.until",
            WAIT.kind,
            "with `backfill.order`, the time from its submission after which an application goes in the "
            "order of arrival again, before all that are newer; with `0s` never: it may be passed for ever",
            "8.5",
            "12h",
            where="root",
        ),
        ORDER_UNTIL,
        WAIT,
        after="backfill.order",
        standard=STANDARD_UNTIL,
        needs="backfill.order",
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
        needs="backfill",
    ),
)


def notes_of(partition: PartitionConfig) -> Iterator[str]:
    """Notes about settings that defeat the purpose of backfill."""
    # That order leaves no room for large asks, as it spreads small asks over all nodes.
    if partition.node_sort.type is NodeSortType.FAIR and partition.root.settings.of(NAME):
        yield (
            "backfill with nodesortpolicy fair leaves nodes partly free while larger asks wait: "
            "auto, the default, packs them then"
        )


TAGS = {START_BY: read_seconds}
