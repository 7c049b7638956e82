"""Log levels that RMs request in their extra configurations (spec §§ 2.8, 13.5).

An RM may want more lines of any logger while it is registered; `telemetry/logs/levels.py` has the
rule for several of them. Levels that cannot be applied are ignored and logged.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import structlog

from licorne_core.config.extra import logger_of, read_extra
from licorne_core.values.errors import shown
from licorne_core.values.ids import RmId
from licorne_server.telemetry.logs import level_problem, levels, takes_level

log = structlog.get_logger("core.rm_log_levels")

MOST_TOLD = 10
"""Ignored levels of one extra configuration that the log names, at most."""

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
"""Loggers of a shim and those below them are the RM's own: one config map is for both sides."""


class Ignored(NamedTuple):
    """A level that cannot be followed."""

    key: str
    logger: str
    level: str
    """Our name for the level; empty if it is none."""


class RmLogLevels:
    """Hands on which levels the RMs of one server want."""

    def __init__(self, extra_of: Callable[[RmId], Mapping[str, str]]) -> None:
        """Start without requests. `extra_of` is the extra configuration of a registered RM."""
        self._extra_of = extra_of
        self._wanted: dict[RmId, Mapping[str, str]] = {}

    def follow(self, rm_id: RmId) -> None:
        """An RM's extra configuration may be another."""
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
        _tell(rm_id, given, ignored)

    def wanted(self) -> Mapping[RmId, Mapping[str, str]]:
        """Requested levels of each RM that requests any, by names of loggers."""
        return self._wanted

    def forget(self, rm_id: RmId) -> None:
        """Drop the requests of an RM that is gone."""
        self._want(rm_id, {})

    def forget_all(self) -> None:
        """The server stops; others of its process may go on."""
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
        log.info("log levels wanted", rm_id=rm_id, levels=dict(_named(wanted)))


def _named(wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The levels by the keys that give them, in order."""
    for name in sorted(wanted):
        yield f"log.{name}.level" if name else "log.level", wanted[name]


def _tell(rm_id: RmId, given: Mapping[str, str], ignored: list[Ignored]) -> None:
    # Reasons are looked up only for logged levels: each takes a while.
    for key, logger, level in ignored[:MOST_TOLD]:
        reason = level_problem(logger, level) if level else "it is no level"
        about = {"key": shown(key), "value": shown(given[key]), "reason": reason}
        log.warning("log level ignored", rm_id=rm_id, **about)
    more = len(ignored) - MOST_TOLD
    if more > 0:
        log.warning("more log levels ignored", rm_id=rm_id, number=more)
