"""The metrics of a member of a deployment: its lease, its RMs, and the other members."""

from licorne_server.http.families import counter, gauge
from licorne_server.store.coordination.ownership import Ownership


def _owned(ownership: Ownership) -> int:
    """Number of RMs that this member owns."""
    me = ownership.me()
    return sum(record.owner == me for record in ownership.snapshot().rms.values())


DEPLOYMENT = (
    gauge(
        "licorne_members",
        "Members of the deployment, this one included; 0 for a server that is alone.",
        lambda ownership: len(ownership.snapshot().members),
    ),
    gauge("licorne_rms_owned", "RMs whose owner this member is.", _owned),
    counter(
        "licorne_rms_moved_total",
        "RMs that this member gave to others.",
        lambda ownership: ownership.counts().moved,
    ),
    counter(
        "licorne_member_renewals_total",
        "Renewals of this member's lease.",
        lambda ownership: ownership.counts().renewals,
    ),
    counter(
        "licorne_member_renewal_failures_total",
        "Renewals of this member's lease that failed.",
        lambda ownership: ownership.counts().failures,
    ),
    counter(
        "licorne_member_fenced_total",
        "Times that this member stopped deciding because it could not renew its lease in time.",
        lambda ownership: ownership.counts().fenced,
    ),
)
"""Metrics of `Ownership`."""
