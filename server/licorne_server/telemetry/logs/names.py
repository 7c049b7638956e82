"""The names of all loggers, by the parts of the server.

Names are published: operators give levels to them, so they stay when code moves. The details of one
server's scheduling are below `core.scheduler`, as in the older core (spec § 12.5).
"""

from licorne_core.config.similar import Similar
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
    return (
        f"logger {shown(name)} does not exist; there are {', '.join(LOGGERS)}, "
        "and what is above them"
    )
