"""Levels of the server's loggers, changed while it runs.

The name of a logger is a part of the server: `core.engine`, `core.http.stream`. A level that is
given for a name is for all loggers below it as well; the most specific name counts (spec § 12.5).

An operator gives levels, and RMs request some (spec § 2.8). An operator's level counts before all
requests. Where none is given, the most talkative counts of the RMs' requests and of the level at
the server's start. So an RM suppresses no lines of others, and an operator may silence it.

The names of loggers are published: operators give levels to them, so they stay when code moves. The
details of one server's scheduling are below `core.scheduler`, as in the older core (spec § 12.5).
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from licorne_core.config.report import Similar
from licorne_core.values.errors import shown

TOP = "core"

AUDIT = "core.admin.audit"
"""Its lines are written whatever the level is."""

COMMANDS = "core.scheduler.commands"
CONFIGURATIONS = "core.scheduler.configurations"
GANGS = "core.scheduler.gangs"
PREDICATES = "core.scheduler.predicates"
PREEMPTION = "core.scheduler.preemption"
TURNS = "core.scheduler.turns"

LOGGERS = (
    "core.access",
    AUDIT,
    "core.admission",
    "core.app",
    "core.audits",
    "core.certificate_end",
    "core.configurations.applying",
    "core.configurations.history",
    "core.configurations.keeper",
    "core.configurations.reloading",
    "core.configurations.state_dir",
    "core.configurations.warnings",
    "core.connections",
    "core.convert_asks",
    "core.convert_in",
    "core.copies",
    "core.departures",
    "core.engine",
    "core.errors_to_status",
    "core.event_feed",
    "core.http.door",
    "core.http.errors",
    "core.http.handshake",
    "core.http.hosts",
    "core.http.identity",
    "core.http.stream",
    "core.http.ui.feed",
    "core.memory",
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
    "core.undisturbed",
    "core.watchdog",
)
"""All logger names, in alphabetical order."""


def _with_those_above(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, and all that stand above one of them."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        found.update(dict.fromkeys(".".join(parts[:end]) for end in range(1, len(parts) + 1)))
    return tuple(sorted(found))


NAMES = _with_those_above(LOGGERS)
"""The names that may have a level: those of loggers, and what stands above them."""

_KNOWN = frozenset(NAMES)
# A name is compared without what all have in common, and by its last part.
_BELOW = tuple(name.removeprefix(f"{TOP}.") for name in NAMES if name != TOP)
_BY_LAST = {name.rpartition(".")[2]: name for name in reversed(NAMES)}


def takes_level(name: str) -> bool:
    """True if a level can be given for a name, the empty one being for all others."""
    return not name or (name in _KNOWN and name != AUDIT)


def level_problem(name: str, level: str) -> str:
    """The problem with giving or taking away a level for a name, or the empty text.

    An unknown name is compared with the known ones, which takes up to a millisecond.
    """
    if name == AUDIT and level:
        return f"logger {AUDIT} has no level: all its lines are written"
    return "" if not name or name in _KNOWN else _missing(name)


def _missing(name: str) -> str:
    """The error about a missing name, with the name probably meant."""
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
    """A reason against setting a level."""

    field: str
    text: str


class Threshold:
    """The least level of a logger's lines; holders see it change."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        """Start with a level, as a number of Python's logging."""
        self.number = number

    @property
    def debugs(self) -> bool:
        """True if lines of `debug` are written; checked before an expensive one is made."""
        return self.number <= logging.DEBUG

    @property
    def warns(self) -> bool:
        """The same of `warning`."""
        return self.number <= logging.WARNING


class Logger:
    """The sink of structlog's finished lines, with their least level."""

    def __init__(self, name: str, threshold: Threshold, write: Callable[[str], None]) -> None:
        """Write lines of every level."""
        self.name = name
        self._threshold = threshold
        self.debug = self.info = self.warning = self.error = self.critical = write

    @property
    def threshold(self) -> int:
        """The level from which on it wants lines, as a number of Python's logging."""
        return self._threshold.number


class Levels:
    """The levels of all loggers of the process. Any thread may log; one thread changes levels."""

    changes: int
    """Number of changes of levels, by which holders of cached levels notice one."""

    def __init__(self) -> None:
        """Start all loggers with `info`."""
        self.changes = 0
        self._usual = "info"
        # What the operator has given. The empty name is for all others, in all three.
        self._given: dict[str, str] = {}
        self._wanted: dict[Hashable, Mapping[str, str]] = {}
        # For each logger how many want which level of it.
        self._wishes: dict[str, Counter[str]] = {}
        self._thresholds: dict[str, Threshold] = {}
        for name in ("", *LOGGERS):
            self.threshold(name)

    def begin(self, level: str) -> None:
        """The server starts with this level, and no logger has one of its own."""
        self._usual = level
        self._given = {}
        self._derive()

    def logger(self, name: str, write: Callable[[str], None]) -> Logger:
        """The logger of that name."""
        return Logger(name, self.threshold(name), write)

    def threshold(self, name: str) -> Threshold:
        """The threshold of the logger of that name."""
        threshold = self._thresholds.get(name)
        if threshold is None:
            levels = (_level_in(wanted, name) for wanted in self._wanted.values())
            self._wishes[name] = Counter(level for level in levels if level)
            threshold = self._thresholds[name] = Threshold(self._number_of(name))
        return threshold

    def given(self) -> dict[str, str]:
        """The level of each logger that was given one; the empty name is for all others."""
        return {"": self._usual, **dict(sorted(self._given.items()))}

    def of_others(self) -> str:
        """The level of all unnamed loggers."""
        return self._level_of("")

    def problem(self, name: str, level: str) -> LevelProblem | None:
        """The problem with giving the level to the name, if there is one."""
        if level and level not in LEVELS:
            wanted = ", ".join(LEVELS)
            return LevelProblem("level", f"level {shown(level)} is none of {wanted}")
        text = level_problem(name, level)
        return LevelProblem("logger", text) if text else None

    def set(self, name: str, level: str) -> None:
        """Give the level to a logger and those below it, or take it away; `problem` found none.

        Without a name it is that of all others, which goes back to that of the start.
        """
        if level:
            self._given[name] = level
        else:
            self._given.pop(name, None)
        self._derive()

    def want(self, owner: Hashable, levels: Mapping[str, str]) -> None:
        """Set the levels requested by an RM, by names of loggers; all names and levels are known.

        Its earlier requests are dropped. The cost does not depend on the number of requesting RMs.
        """
        self.changes += 1
        before = self._wanted.pop(owner, {})
        if levels:
            self._wanted[owner] = dict(levels)
        for name, threshold in self._thresholds.items():
            old, new = _level_in(before, name), _level_in(levels, name)
            if old == new:
                continue
            wishes = self._wishes[name]
            if old:
                wishes[old] -= 1
            if new:
                wishes[new] += 1
            threshold.number = self._number_of(name)

    def _derive(self) -> None:
        self.changes += 1
        for name, threshold in self._thresholds.items():
            threshold.number = self._number_of(name)

    def _number_of(self, name: str) -> int:
        return logging.NOTSET if name == AUDIT else _NUMBERS[self._level_of(name)]

    def _level_of(self, name: str) -> str:
        """The level of a logger that has a threshold, or of all others."""
        given = _level_in(self._given, name)
        if given:
            return given
        wanted = (level for level, count in self._wishes[name].items() if count)
        return min((self._usual, *wanted), key=LEVELS.index)


def _level_in(levels: Mapping[str, str], name: str) -> str:
    """The level of the most specific name; empty if there is none."""
    while name:
        if name in levels:
            return levels[name]
        name = name.rpartition(".")[0]
    return levels.get("", "")


def number_of(method: str) -> int:
    """Severity of a line, from the name of its log method."""
    return _NUMBERS.get(method, logging.ERROR)


# A process has one log, and so one set of levels.
_levels = Levels()


def levels() -> Levels:
    """The levels of this process."""
    return _levels
