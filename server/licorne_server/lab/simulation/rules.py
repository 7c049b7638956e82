"""Rules of a simulation: the queue of each job, and the units of a trace (``--map FILE``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from licorne_core.config.document import read_document
from licorne_core.config.reader import Cursor
from licorne_core.config.report import Report
from licorne_core.values.names import fits_pattern
from licorne_core.values.resources import VCORE, Resources

FIELDS: Final = ("user", "group", "queue", "partition", "name")
"""Fields of a job that rules can match."""
MAX_RULES: Final = 10_000
_RULE: Final = (*FIELDS, "to", "priority")
_MAP: Final = ("queues", "sizes", "members", "gang")
_UNITS: Final = ("processor", "gpu")
GPU: Final = "nvidia.com/gpu"
DEFAULT_SIZES: Final[Mapping[str, Resources]] = {"processor": {VCORE: 1000}, "gpu": {GPU: 1}}


class Division(StrEnum):
    """Division of a job into members."""

    NODE = "node"
    """As few members as possible: each is as large as a node, except for the last one."""
    PROCESSOR = "processor"
    """One member for each processor, or for each GPU if the job uses GPUs."""
    TRACE = "trace"
    """The members of the trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRule:
    """Places jobs whose fields match all `patterns` in the queue `to`, which may contain fields in braces."""

    patterns: Mapping[str, str]
    to: str
    priority: int | None = None

    def matches(self, fields: Mapping[str, str]) -> bool:
        """True if each pattern fits its field; ``*`` stands for any characters."""
        return all(_fits(fields[name], pattern) for name, pattern in self.patterns.items())


@lru_cache(maxsize=100_000)
def _fits(value: str, pattern: str) -> bool:
    return fits_pattern(pattern, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a trace is played.

    A job without a matching rule is placed in the queue `otherwise`, or if that is empty, in the policy's
    queue. `sizes` overrides the `DEFAULT_SIZES` of a processor and of a GPU. Without `members` and `gang` the
    trace decides.
    """

    queues: Sequence[QueueRule] = ()
    sizes: Mapping[str, Resources] = field(default_factory=dict)
    members: Division | None = None
    gang: bool | None = None
    otherwise: str = ""

    def queue_of(self, fields: Mapping[str, str]) -> tuple[str, int | None]:
        """The queue of a job with these fields, and the priority that its rule sets, if any."""
        for rule in self.queues:
            if rule.matches(fields):
                return rule.to.format_map(fields), rule.priority
        return self.otherwise.format_map(fields), None


def load_rules(text: str) -> Rules:
    """Read a file of rules.

    Raises:
        ConfigError: the text cannot be used; the error has all problems.
    """
    report = Report(strict=False)
    document = read_document(text, report)
    fields = Cursor(document, "", report).fields(_MAP)
    rules = [_rule(item) for item in fields["queues"].items()[:MAX_RULES]]
    units = fields["sizes"].fields(_UNITS)
    sizes = {unit: amounts for unit in _UNITS if (amounts := units[unit].resources())}
    word = fields["members"].text()
    if word and word not in set(Division):
        fields["members"].problem(f"'{word}' is none of {', '.join(Division)}")
        word = ""
    gang = None if fields["gang"].is_null else fields["gang"].flag()
    report.raise_problems()
    return Rules(queues=tuple(rules), sizes=sizes, members=Division(word) if word else None, gang=gang)


def _rule(cursor: Cursor) -> QueueRule:
    fields = cursor.fields(_RULE)
    to = fields["to"].text()
    if not to:
        fields["to"].problem("no queue")
    try:
        to.format_map(dict.fromkeys(FIELDS, "x"))
    except (KeyError, IndexError, ValueError, AttributeError, TypeError):
        fields["to"].problem(f"'{to}' may have {', '.join(f'{{{name}}}' for name in FIELDS)} only")
        to = "root"
    priority = None
    if not fields["priority"].is_null:
        priority = int(fields["priority"].number())
    patterns = {name: fields[name].text() for name in FIELDS if not fields[name].is_null}
    return QueueRule(patterns=patterns, to=to, priority=priority)
