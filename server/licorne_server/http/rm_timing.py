"""Metrics of the measures of each RM, and the older core's names for some of it.

A histogram has some twenty samples. So only some RMs have histograms of their own, and the others
share common ones: the totals stay right.
"""

from collections.abc import Iterator, Sequence

from licorne_server.http.families import Families, Labels
from licorne_server.http.sources import RmFigures
from licorne_server.telemetry.measures import Histogram, RmMeasures
from licorne_server.telemetry.measures.histogram import OLDER
from licorne_server.telemetry.measures.of_rm import RESULTS

MAX_RMS = 100
"""RMs with histograms of their own, those that registered first."""

OTHERS = "(others)"
"""Id that stands for the other RMs."""

HISTOGRAMS = {
    "allocation": (
        "licorne_allocation_latency_seconds",
        "From when an ask was read to when its allocation was put into the outbox.",
    ),
    "turn": (
        "licorne_turn_duration_seconds",
        "Turns of the RM's partitions, with the routing of what came of them.",
    ),
    "answers": (
        "licorne_predicate_answer_seconds",
        "From when a check was written to when the RM's answer was read.",
    ),
    "sending": (
        "licorne_rm_outbox_wait_seconds",
        "How long messages waited for their RM until they were written.",
    ),
    "configuring": (
        "licorne_configuration_update_seconds",
        "From when a new configuration was read to when it was in force or refused.",
    ),
}
"""Name and text of each, by its attribute of `RmMeasures`."""

_SCHEDULER = "yunikorn_scheduler_"
OLDER_HISTOGRAMS = (
    (f"{_SCHEDULER}scheduling_latency_milliseconds", "turn", "Turns, in seconds."),
    (f"{_SCHEDULER}scheduling_cycle_milliseconds", "turn", "Turns, in seconds."),
    (f"{_SCHEDULER}trynode_latency_milliseconds", "trying", "Tries of asks, in seconds."),
    (f"{_SCHEDULER}trynode_evaluation_milliseconds", "trying", "Tries of asks, in seconds."),
    (f"{_SCHEDULER}trypreemption_latency_milliseconds", "searching", "Searches, in seconds."),
)
"""The names that say milliseconds and mean seconds, as they always did (spec § 12.3)."""

SORTING = f"{_SCHEDULER}node_sorting_latency_milliseconds"


def gather_timing(rms: Sequence[RmFigures], families: Families) -> Iterator[None]:
    """Add the measures of all RMs, one at a step."""
    for rm in rms:
        yield
        _counts(str(rm.rm_id), rm.measures, families)
    for rm in rms[:MAX_RMS]:
        yield
        yield from _histograms(str(rm.rm_id), [rm.measures], families)
    others = [rm.measures for rm in rms[MAX_RMS:]]
    if others:
        yield
        yield from _histograms(OTHERS, others, families)


def _histograms(rm: str, measured: list[RmMeasures], families: Families) -> Iterator[None]:
    """Add the histograms of RMs together, one at a step: there may be a thousand RMs."""
    for key, (name, text) in HISTOGRAMS.items():
        families.histogram(name, text, ("rm",), {(rm,): _together(measured, key)})
        yield
    for name, key, text in OLDER_HISTOGRAMS:
        older = _together(measured, key).coarser(OLDER)
        families.histogram(name, text, ("rm",), {(rm,): older})
        yield
    # Queues and applications are kept in order, and there is no sorting to be timed.
    nothing: dict[Labels, Histogram] = {(rm, level): Histogram(OLDER) for level in ("app", "queue")}
    families.histogram(SORTING, "Always empty: nothing is sorted.", ("rm", "level"), nothing)


def _together(measured: list[RmMeasures], key: str) -> Histogram:
    first: Histogram = getattr(measured[0], key)
    if len(measured) == 1:
        return first
    together = Histogram(first.bounds)
    for measures in measured:
        together.add(getattr(measures, key))
    return together


def _counts(rm: str, measures: RmMeasures, families: Families) -> None:
    text = "Items that were not taken, by kind and reason."
    rejections: dict[Labels, float] = {
        (rm, item, code.value): count for (item, code), count in measures.rejections.items()
    }
    families.counter("licorne_rejections_total", text, ("rm", "item", "reason"), rejections)
    text = "New configurations by what came of them."
    results: dict[Labels, float] = {
        (rm, result): measures.configurations[result] for result in RESULTS
    }
    families.counter("licorne_configuration_updates_total", text, ("rm", "result"), results)
    text = "1 when the last configuration was refused, so that one before it is in force."
    refused: dict[Labels, float] = {(rm,): int(measures.is_refused)}
    families.gauge("licorne_configuration_refused", text, ("rm",), refused)
    text = "Times that the RM connected, having had no stream."
    families.counter("licorne_rm_connections_total", text, ("rm",), {(rm,): measures.connections})
