"""Measures as rows of a table and as plain data: of one run, or of several side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from licorne_core.values.resources import in_units
from licorne_core.values.windows import DAY, HOUR
from licorne_server.lab.simulation.summary import PartitionSummary, QueueSummary, Summary

HEADERS: Final = (
    "QUEUE",
    "ASKS",
    "PLACED",
    "WITHDRAWN",
    "WAITING",
    "WAIT MEAN",
    "WAIT P50",
    "WAIT P99",
    "BELOW GUARANTEE",
    "VICTIMS",
    "LOST WORK",
)
USE_HEADERS: Final = ("PARTITION", "RESOURCE", "UTILISATION")

MOST_ROWS: Final = 100
"""Maximum number of queues in a table; `as_data` has all."""

_NONE: Final = "-"


def rows(sides: Sequence[Summary]) -> list[tuple[str, ...]]:
    """A row for the whole run, and one for each queue that had asks; different values as ``a → b``."""
    found = [tuple(_together("all", [side.total for side in sides]))]
    places: dict[tuple[str, str, str], list[QueueSummary | None]] = {}
    for number, side in enumerate(sides):
        for queue in side.queues:
            if queue.asks:
                place = (queue.rm_id, queue.partition, queue.queue)
                places.setdefault(place, [None] * len(sides))[number] = queue
    for (rm_id, partition, path), queues in sorted(places.items()):
        found.append(tuple(_together(f"[{rm_id}]{partition} {path}", queues)))
    return found


def use_rows(sides: Sequence[Summary]) -> list[tuple[str, ...]]:
    """A row for each partition and resource; different values as ``a → b``."""
    shares: dict[tuple[str, str], list[str]] = {}
    for number, side in enumerate(sides):
        for partition in side.partitions:
            for name, share in partition.utilisation.items():
                place = (f"[{partition.rm_id}]{partition.partition}", name)
                shares.setdefault(place, [_NONE] * len(sides))[number] = f"{100 * share:.1f} %"
    return [(*place, _joined(values)) for place, values in sorted(shares.items())]


def _together(name: str, queues: Sequence[QueueSummary | None]) -> list[str]:
    cells = [[_NONE] * (len(HEADERS) - 1) if queue is None else _cells(queue) for queue in queues]
    return [name, *(_joined(values) for values in zip(*cells, strict=True))]


def _cells(queue: QueueSummary) -> list[str]:
    lost = {name: round(amount / HOUR) for name, amount in queue.lost.items()}
    return [
        f"{queue.asks:,}",
        f"{queue.placed:,}",
        f"{queue.withdrawn:,}",
        f"{queue.waiting:,}",
        shown_seconds(queue.wait_mean),
        shown_seconds(queue.wait_p50),
        shown_seconds(queue.wait_p99),
        shown_seconds(queue.below_guarantee or None),
        f"{queue.victims:,}",
        f"{in_units(lost)} h" if lost else _NONE,
    ]


def _joined(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else " → ".join(values)


def shown_seconds(seconds: float | None) -> str:
    """A duration in the most suitable unit, with three digits: ``90s``, ``1.5h``; a dash for None."""
    if seconds is None:
        return _NONE
    for unit, length in (("s", 1), ("m", 60), ("h", HOUR)):
        if seconds < 120 * length:
            return f"{_digits(seconds / length)}{unit}"
    return f"{_digits(seconds / DAY)}d"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def as_data(summary: Summary) -> dict[str, Any]:
    """All measures as plain data: unix seconds, waits in seconds, lost work in amounts times seconds."""
    return {
        "begin": summary.begin,
        "end": summary.end,
        "utilisation": dict(summary.utilisation),
        "total": _values(summary.total),
        "rms": [{"rmId": rm.rm_id, **_values(rm)} for rm in summary.rms],
        "partitions": [_partition(one) for one in summary.partitions],
        "queues": [
            {"rmId": one.rm_id, "partition": one.partition, "queue": one.queue, **_values(one)}
            for one in summary.queues
        ],
    }


def _partition(one: PartitionSummary) -> dict[str, Any]:
    return {"rmId": one.rm_id, "partition": one.partition, "utilisation": dict(one.utilisation)}


def _values(queue: QueueSummary) -> Mapping[str, Any]:
    return {
        "asks": queue.asks,
        "placed": queue.placed,
        "withdrawn": queue.withdrawn,
        "waiting": queue.waiting,
        "waitMean": queue.wait_mean,
        "waitP50": queue.wait_p50,
        "waitP99": queue.wait_p99,
        "belowGuarantee": queue.below_guarantee,
        "victims": queue.victims,
        "lost": dict(queue.lost),
    }
