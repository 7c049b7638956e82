"""Decayed usage: in State and REST, in metrics, in the journal, and in the state that outlives a server."""

from collections.abc import Callable, Mapping
from math import isfinite

from licorne.v1 import state_pb2 as pb
from licorne_core.config.schema import QueueConfig
from licorne_core.extensions.fair_memory.messages import KeptUsage, UsageOwner
from licorne_core.extensions.fair_memory.reports import FairShareReport
from licorne_core.values.windows import HOUR
from licorne_core.views.queues import QueueReport
from licorne_server.engine.journal.forms import TEXT, KeptForm, Row, plain
from licorne_server.store.documents.encoding import Positive, Sum, Whole
from licorne_server.wire.features import QueueMetric, Reports

_SHOWN = {"fairShare": Reports("fair_share", FairShareReport, pb.FairShare)}


def _share(queue: QueueReport) -> FairShareReport | None:
    share: FairShareReport | None = queue.extended["fair_share"]
    return share


def _decayed(queue: QueueReport, shows: Callable[[str], bool]) -> Mapping[str, float] | None:
    share = _share(queue)
    if share is None:
        return None
    return {name: hours * HOUR for name, hours in share.decayed.items() if shows(name)}


def _place(queue: QueueReport, _: Callable[[str], bool]) -> Mapping[str, float] | None:
    share = _share(queue)
    if share is None:
        return None
    return {"": share.share} if isfinite(share.share) else {}


def _is_wanted(queue: QueueConfig) -> bool:
    return bool(queue.settings.of("fair_memory"))


_OWNER = Row(UsageOwner, path=TEXT, user=TEXT)
_SUMS = plain(dict[str, Sum])
_STORED = Row(
    KeptUsage,
    lambda values: KeptUsage(**values, before=values["values"]),
    half_life=plain(Positive),
    time=plain(Sum),
    values=_SUMS,
    amounts=plain(dict[str, Whole]),
)
_USAGE = Row(KeptUsage, **_STORED.columns, before=_SUMS)

QUEUE_REPORTS = _SHOWN
USAGE_REPORTS = _SHOWN
QUEUE_METRICS = {
    "licorne_queue_decayed_resource_seconds": QueueMetric(
        "Usage that counts half after each half-life, in amounts times seconds.", True, _decayed
    ),
    "licorne_queue_decayed_share": QueueMetric(
        "Decayed usage against what is due and the weight: the smaller comes first.", False, _place
    ),
}
KEPT = {
    "fair_memory": KeptForm(
        name="usage",
        owner=_OWNER,
        value=_USAGE,
        rows=(_OWNER, _USAGE),
        stored=_STORED,
        is_wanted=_is_wanted,
        life=lambda kept: kept.half_life,
    )
}
