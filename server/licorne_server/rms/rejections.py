"""Log lines about rejected items, registrations and streams, with the reason.

Items are taken from the effects on their way to their RM. The number of lines is bounded for each
RM and each kind of item (`telemetry/logs/limits.py`), and for each effect, so that the largest
request that is refused whole costs little.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import structlog

from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsRejected,
    ApplicationRejection,
    ApplicationsAnswered,
    Effect,
    NodeRejection,
    NodesAnswered,
)
from licorne_core.values.errors import shown
from licorne_core.values.ids import RmId
from licorne_server.security.access import Access
from licorne_server.telemetry.logs import levels
from licorne_server.wire.errors import CallError

log = structlog.get_logger("core.rejections")

MOST_TOLD = 20
"""Items of one effect that have a line each; the others are counted in one."""

_TOLD_ELSEWHERE = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
"""Codes that authentication logs itself."""

_Rejection = NodeRejection | ApplicationRejection | AllocationRejection

_ANSWERS = frozenset({AllocationsRejected, ApplicationsAnswered, NodesAnswered})

_threshold = levels().threshold("core.rejections")


def tell_rejections(effect: Effect) -> None:
    """Log the rejected items of an effect, if it has any; does nothing if the level is off."""
    if type(effect) not in _ANSWERS or not _threshold.warns:
        return
    match effect:
        case AllocationsRejected():
            _tell(effect.rm_id, effect.rejections)
        case ApplicationsAnswered() | NodesAnswered() if effect.rejected:
            _tell(effect.rm_id, effect.rejected)


def _tell(rm_id: RmId, rejections: Sequence[_Rejection]) -> None:
    for rejection in rejections[:MOST_TOLD]:
        kind, about = _named(rejection)
        why = {"code": rejection.code.name, "reason": rejection.reason}
        log.warning(f"{kind} rejected", rm_id=rm_id, **about, **why)
    if len(rejections) > MOST_TOLD:
        rest = rejections[MOST_TOLD:]
        kinds = Counter(_kind(rejection) for rejection in rest)
        codes = Counter(rejection.code.name for rejection in rest)
        log.warning("more rejected", rm_id=rm_id, items=dict(kinds), codes=dict(codes))


def _kind(rejection: _Rejection) -> str:
    if isinstance(rejection, NodeRejection):
        return "node"
    return "application" if isinstance(rejection, ApplicationRejection) else rejection.item


def _named(rejection: _Rejection) -> tuple[str, dict[str, str]]:
    """Kind of an item, and its identifying fields."""
    if isinstance(rejection, NodeRejection):
        return "node", {"key": rejection.node_id}
    if isinstance(rejection, ApplicationRejection):
        return "application", {"key": rejection.app_id}
    return rejection.item, {"key": rejection.key, "application": rejection.app_id}


@contextmanager
def telling_refusal(what: str, rm_id: str, access: Access, context: Any) -> Iterator[None]:
    """Log the reason if an RM is refused inside the block; `what` is ``registration``, ``stream``
    or ``session``.

    Any caller may name any RM, so the line counts for the caller and not for the RM.
    """
    try:
        yield
    except CallError as error:
        if error.code not in _TOLD_ELSEWHERE:
            by, peer = access.caller(context).peer, context.peer()
            about = {"code": error.reason, "reason": error.message}
            log.warning(f"{what} refused", rm_id=shown(rm_id), by=by, peer=peer, **about)
        raise
