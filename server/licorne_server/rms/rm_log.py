"""The log of RMs: their rejected requests, and the levels that they request (spec §§ 2.8, 13.5).

Rejected items are taken from the effects on their way to their RM. The number of lines is bounded for each RM
and each kind of item (`telemetry/logs/lines.py`), and for each effect, so that even a refusal of the largest
request costs little.

The extra configuration of a registered RM may request more lines of any logger; `telemetry/logs/levels.py`
has the rule for several RMs. Levels that cannot be applied are ignored and logged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import grpc
import structlog

from licorne_core.config.extra import logger_of, meant_key, read_extra
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
from licorne_server.telemetry.logs import level_problem, levels, takes_level
from licorne_server.wire.errors import CallError

log = structlog.get_logger("core.rejections")

MOST_LOGGED = 20
"""Maximum number of items of one effect that are logged with a line each; another line counts the rest."""

_LOGGED_ELSEWHERE = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})
"""Status codes of refusals that authentication logs itself."""

_Rejection = NodeRejection | ApplicationRejection | AllocationRejection

_ANSWERS = frozenset({AllocationsRejected, ApplicationsAnswered, NodesAnswered})

_threshold = levels().threshold("core.rejections")


def log_rejections(effect: Effect) -> None:
    """Log the rejected items of an effect, if it has any; does nothing if the level is off."""
    if type(effect) not in _ANSWERS or not _threshold.warns:
        return
    match effect:
        case AllocationsRejected():
            _log(effect.rm_id, effect.rejections)
        case ApplicationsAnswered() | NodesAnswered() if effect.rejected:
            _log(effect.rm_id, effect.rejected)


def _log(rm_id: RmId, rejections: Sequence[_Rejection]) -> None:
    for rejection in rejections[:MOST_LOGGED]:
        kind, about = _named(rejection)
        why = {"code": rejection.code.name, "reason": rejection.reason}
        log.warning(f"{kind} rejected", rm_id=rm_id, **about, **why)
    if len(rejections) > MOST_LOGGED:
        rest = rejections[MOST_LOGGED:]
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
def logging_refusal(what: str, rm_id: str, access: Access, context: Any) -> Iterator[None]:
    """Log the reason if an RM is refused inside the block.

    `what` is ``registration``, ``stream`` or ``session``. Any caller may name any RM, so the number of lines
    is bounded for each caller, not for each RM.
    """
    try:
        yield
    except CallError as error:
        if error.code not in _LOGGED_ELSEWHERE:
            by, peer = access.caller(context).peer, context.peer()
            about = {"code": error.reason, "reason": error.message}
            log.warning(f"{what} refused", rm_id=shown(rm_id), by=by, peer=peer, **about)
        raise


_levels_log = structlog.get_logger("core.rm_log_levels")

MOST_KEYS = 40
"""Maximum number of keys of an extra configuration that are checked for misspellings."""

MOST_IGNORED = 10
"""Maximum number of ignored levels of one extra configuration that the log names."""

_OURS = {
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "error": "error",
    "dpanic": "error",
    "panic": "error",
    "fatal": "error",
}
"""Our name for each level that an extra configuration may give."""

_OF_THE_RM = frozenset({"admission", "kubernetes", "shim", "test"})
"""Loggers of a shim with their descendants, which the server ignores: both sides share one config map."""


class Ignored(NamedTuple):
    """A level that cannot be followed."""

    key: str
    logger: str
    level: str
    """Our name for the level; empty if it is unknown."""


class RmLogLevels:
    """Passes on the log levels that the RMs of one server request."""

    def __init__(self, extra_of: Callable[[RmId], Mapping[str, str]]) -> None:
        """Start without requests. `extra_of` is the extra configuration of a registered RM."""
        self._extra_of = extra_of
        self._wanted: dict[RmId, Mapping[str, str]] = {}

    def follow(self, rm_id: RmId) -> None:
        """Read an RM's extra configuration, which may have changed."""
        given = self._extra_of(rm_id)
        levels_given = read_extra(given).log_levels
        wanted: dict[str, str] = {}
        ignored: list[Ignored] = []
        for key in given:
            name = logger_of(key)
            if name is None or name.partition(".")[0] in _OF_THE_RM:
                continue
            level = _OURS.get(levels_given.get(name, ""), "")
            if level and takes_level(name):
                wanted[name] = level
            else:
                ignored.append(Ignored(key, name, level))
        self._want(rm_id, wanted)
        _log_ignored(rm_id, given, ignored)
        _log_slips(rm_id, given)

    def wanted(self) -> Mapping[RmId, Mapping[str, str]]:
        """Requested levels of each RM that requests any, by names of loggers."""
        return self._wanted

    def forget(self, rm_id: RmId) -> None:
        """Drop the requests of an RM that was removed."""
        self._want(rm_id, {})

    def forget_all(self) -> None:
        """Drop all requests of this server, which is stopping; other servers of the process may continue."""
        for rm_id in self._wanted:
            levels().want((self, rm_id), {})
        self._wanted.clear()

    def _want(self, rm_id: RmId, wanted: Mapping[str, str]) -> None:
        if wanted == self._wanted.get(rm_id, {}):
            return
        if wanted:
            self._wanted[rm_id] = wanted
        else:
            del self._wanted[rm_id]
        levels().want((self, rm_id), wanted)
        _levels_log.info("log levels wanted", rm_id=rm_id, levels=dict(_by_key(wanted)))


def _by_key(wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The levels by configuration key, in order."""
    for name in sorted(wanted):
        yield f"log.{name}.level" if name else "log.level", wanted[name]


def _log_slips(rm_id: RmId, given: Mapping[str, str]) -> None:
    """Log near misspellings of supported keys; only the first keys, as each check takes a while."""
    for key in islice(given, MOST_KEYS):
        if meant := meant_key(key):
            about = {"key": shown(key), "reason": f"it means nothing, did you mean {meant}?"}
            _levels_log.warning("extra configuration ignored", rm_id=rm_id, **about)


def _log_ignored(rm_id: RmId, given: Mapping[str, str], ignored: list[Ignored]) -> None:
    # Reasons are looked up only for lines that are logged, because each lookup takes a while.
    for key, logger, level in ignored[:MOST_IGNORED]:
        reason = level_problem(logger, level) if level else "it is no level"
        about = {"key": shown(key), "value": shown(given[key]), "reason": reason}
        _levels_log.warning("log level ignored", rm_id=rm_id, **about)
    more = len(ignored) - MOST_IGNORED
    if more > 0:
        _levels_log.warning("more log levels ignored", rm_id=rm_id, number=more)
