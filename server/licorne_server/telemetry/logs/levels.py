"""Levels of the server's loggers, changed while it runs.

The name of a logger is a part of the server: `core.engine`, `core.http.stream`. The level of a name also
applies to all loggers below it; the level of the most specific name takes precedence (spec § 12.5).

Operators set levels, and RMs request levels (spec § 2.8). An operator's level overrides all requests. Without
an operator's level, the most verbose of the RMs' requests and of the server's initial level applies. So no RM
suppresses lines of others, and an operator can silence an RM.

The names of loggers are published: operators use them, so they do not change when code moves. The details of
scheduling are below `core.scheduler`, as in the older core (spec § 12.5).
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from licorne_core.config.report import Similar
from licorne_core.values.errors import shown

TOP = "core"

AUDIT = "core.admin.audit"
"""Logger of operators' requests; its lines are written at every level."""

COMMANDS = "core.scheduler.commands"
CONFIGURATIONS = "core.scheduler.configurations"
GANGS = "core.scheduler.gangs"
PREDICATES = "core.scheduler.predicates"
PREEMPTION = "core.scheduler.preemption"
TURNS = "core.scheduler.turns"

LOGGERS = (
    "core.access",
    "core.accounting",
    AUDIT,
    "core.admission",
    "core.app",
    "core.audits",
    "core.certificate_end",
    "core.configurations.applying",
    "core.configurations.budgets",
    "core.configurations.history",
    "core.configurations.log_levels",
    "core.configurations.memories",
    "core.configurations.reloading",
    "core.configurations.warnings",
    "core.connections",
    "core.convert_asks",
    "core.convert_in",
    "core.coordination.budgets",
    "core.coordination.escrow",
    "core.coordination.etcd",
    "core.coordination.forwarding",
    "core.coordination.kubernetes",
    "core.coordination.members",
    "core.coordination.passing",
    "core.copies",
    "core.departures",
    "core.documents",
    "core.engine",
    "core.errors_to_status",
    "core.event_feed",
    "core.grpc",
    "core.handover",
    "core.http.acts",
    "core.http.door",
    "core.http.errors",
    "core.http.handshake",
    "core.http.hosts",
    "core.http.identity",
    "core.http.members",
    "core.http.stream",
    "core.http.ui.feed",
    "core.http.ui.mirrors",
    "core.journal",
    "core.members",
    "core.memory",
    "core.periodic",
    "core.rejections",
    "core.rm",
    "core.rm_log_levels",
    "core.rms",
    COMMANDS,
    CONFIGURATIONS,
    GANGS,
    PREDICATES,
    PREEMPTION,
    TURNS,
    "core.serve",
    "core.session",
    "core.slow_steps",
    "core.tls",
    "core.tokens",
    "core.tracing.exporting",
    "core.tracing.malformed",
    "core.tracing.tracing",
    "core.transport",
    "core.undisturbed",
    "core.watchdog",
    "core.workers",
)
"""All logger names, in alphabetical order."""


def _with_ancestors(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, and all names above them."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        found.update(dict.fromkeys(".".join(parts[:end]) for end in range(1, len(parts) + 1)))
    return tuple(sorted(found))


NAMES = _with_ancestors(LOGGERS)
"""Names that may have a level: the names of loggers, and the names above them."""

_KNOWN = frozenset(NAMES)
# Names are compared without their common prefix, and also by their last part.
_BELOW = tuple(name.removeprefix(f"{TOP}.") for name in NAMES if name != TOP)
_BY_LAST = {name.rpartition(".")[2]: name for name in reversed(NAMES)}


def takes_level(name: str) -> bool:
    """True if the name may have a level; the empty name stands for all lines without a logger."""
    return not name or (name in _KNOWN and name != AUDIT)


def level_problem(name: str, level: str) -> str:
    """The reason why the level of a name cannot be set or cleared; empty if it can.

    An unknown name is compared with all names, which takes up to a millisecond.
    """
    if name == AUDIT and level:
        return f"logger {AUDIT} has no level: all its lines are written"
    return "" if not name or name in _KNOWN else _missing(name)


def _missing(name: str) -> str:
    """The error about an unknown name, with the most similar known name."""
    meant = _BY_LAST.get(name.rpartition(".")[2].lower())
    if meant is None:
        similar = Similar().to(name.removeprefix(f"{TOP}."), _BELOW)
        meant = f"{TOP}.{similar}" if similar else None
    if meant is not None:
        return f"logger {shown(name)} does not exist: did you mean {meant}?"
    if name.partition(".")[0] != TOP:
        return f"logger {shown(name)} is neither {TOP} nor below it, as {TOP}.engine is"
    return f"logger {shown(name)} does not exist; there are {', '.join(LOGGERS)}, and what is above them"


LEVELS = ("debug", "info", "warning", "error")

_NUMBERS = {name: logging.getLevelNamesMapping()[name.upper()] for name in LEVELS}


class LevelProblem(NamedTuple):
    """A reason why a level cannot be set."""

    field: str
    text: str


class Threshold:
    """Lowest level that a logger writes. Its users share it, so that they see changes immediately."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        """Start with a level, as a number of `logging`."""
        self.number = number

    @property
    def debugs(self) -> bool:
        """True if lines of `debug` are written; to be checked before the work for expensive lines."""
        return self.number <= logging.DEBUG

    @property
    def warns(self) -> bool:
        """True if lines of `warning` are written."""
        return self.number <= logging.WARNING


class Logger:
    """The sink of structlog's finished lines, with their lowest level."""

    def __init__(self, name: str, threshold: Threshold, write: Callable[[str], None]) -> None:
        """Pass all lines to `write`; they have been filtered already."""
        self.name = name
        self._threshold = threshold
        self.debug = self.info = self.warning = self.error = self.critical = write

    @property
    def threshold(self) -> int:
        """Lowest level that is logged, as a number of `logging`."""
        return self._threshold.number


class Levels:
    """The levels of all loggers of the process. Any thread may log; only one thread changes levels."""

    followers: set[Callable[[], None]]
    """Called after each change of levels."""

    def __init__(self) -> None:
        """Start with the level `info` for all loggers."""
        self.followers = set()
        self._usual = "info"
        # Levels set by operators. In all three mappings the empty name stands for all unnamed loggers.
        self._given: dict[str, str] = {}
        self._requested: dict[Hashable, Mapping[str, str]] = {}
        # By logger: the number of RMs that request each level.
        self._requests: dict[str, Counter[str]] = {}
        self._thresholds: dict[str, Threshold] = {}
        for name in ("", *LOGGERS):
            self.threshold(name)

    def begin(self, level: str) -> None:
        """Set the server's initial level, and clear the levels of all loggers."""
        self._usual = level
        self._given = {}
        self._derive()

    def logger(self, name: str, write: Callable[[str], None]) -> Logger:
        """The logger with this name."""
        return Logger(name, self.threshold(name), write)

    def threshold(self, name: str) -> Threshold:
        """The threshold of the logger with this name."""
        threshold = self._thresholds.get(name)
        if threshold is None:
            levels = (_level_in(wanted, name) for wanted in self._requested.values())
            self._requests[name] = Counter(level for level in levels if level)
            threshold = self._thresholds[name] = Threshold(self._number_of(name))
        return threshold

    def given(self) -> dict[str, str]:
        """Levels set by operators, by logger; the empty name stands for all unnamed loggers."""
        return {"": self._usual, **dict(sorted(self._given.items()))}

    def of_others(self) -> str:
        """The level of all unnamed loggers."""
        return self._level_of("")

    def problem(self, name: str, level: str) -> LevelProblem | None:
        """The reason why the level of the name cannot be set; None if it can."""
        if level and level not in LEVELS:
            wanted = ", ".join(LEVELS)
            return LevelProblem("level", f"level {shown(level)} is none of {wanted}")
        text = level_problem(name, level)
        return LevelProblem("logger", text) if text else None

    def set(self, name: str, level: str) -> None:
        """Set the level of a logger and all loggers below it; an empty level clears it.

        The empty name stands for all unnamed loggers. The caller has to check `problem` first.
        """
        if level:
            self._given[name] = level
        else:
            self._given.pop(name, None)
        self._derive()

    def want(self, owner: Hashable, levels: Mapping[str, str]) -> None:
        """Set the levels that an RM requests, by name of logger; names and levels must be valid.

        They replace the RM's earlier requests. The cost does not depend on the number of RMs.
        """
        before = self._requested.pop(owner, {})
        if levels:
            self._requested[owner] = dict(levels)
        for name, threshold in self._thresholds.items():
            old, new = _level_in(before, name), _level_in(levels, name)
            if old == new:
                continue
            counts = self._requests[name]
            if old:
                counts[old] -= 1
            if new:
                counts[new] += 1
            threshold.number = self._number_of(name)
        self._tell()

    def _derive(self) -> None:
        for name, threshold in self._thresholds.items():
            threshold.number = self._number_of(name)
        self._tell()

    def _tell(self) -> None:
        for changed in tuple(self.followers):
            changed()

    def _number_of(self, name: str) -> int:
        return logging.NOTSET if name == AUDIT else _NUMBERS[self._level_of(name)]

    def _level_of(self, name: str) -> str:
        """Level of a logger with a threshold; the empty name stands for all unnamed loggers."""
        given = _level_in(self._given, name)
        if given:
            return given
        wanted = (level for level, count in self._requests[name].items() if count)
        return min((self._usual, *wanted), key=LEVELS.index)


def _level_in(levels: Mapping[str, str], name: str) -> str:
    """The level of the most specific name; empty if there is none."""
    while name:
        if name in levels:
            return levels[name]
        name = name.rpartition(".")[0]
    return levels.get("", "")


def number_of(method: str) -> int:
    """Severity of a line, by the name of its log method."""
    return _NUMBERS.get(method, logging.ERROR)


# There is one log in the process, so there is one set of levels.
_levels = Levels()


def levels() -> Levels:
    """The levels of this process."""
    return _levels
