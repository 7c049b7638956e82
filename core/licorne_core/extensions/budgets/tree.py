"""The tree of budgets: its text, and the rules for budgets from any source."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from licorne_core.config.caps import Cap
from licorne_core.config.document import Node, Scalar, read_document
from licorne_core.config.reader import Cursor
from licorne_core.config.report import Report
from licorne_core.extensions.budgets.messages import SEPARATOR, Budget, BudgetPattern
from licorne_core.values.errors import ConfigError, Problem, shown
from licorne_core.values.ids import RmId
from licorne_core.values.names import WILDCARD, is_partition_name
from licorne_core.values.resources import INT64_MAX, MEMORY, VCORE, Resources

BUDGETS: Final = Cap("budgets", 1_000)
MEMBERS: Final = Cap("members of all budgets", 10_000)
QUEUE_WILDCARDS: Final = Cap("members with a wildcard in the path of a queue, a single * not counted", 1_000)
"""In the worst case each such member is compared with every new leaf; other members are looked up."""
FLOATING: Final = Cap("floating resources", 100)
MAX_MEMBERS: Final = 100
"""Maximum number of members of one budget."""
MAX_LEVELS: Final = 8
MAX_PATTERN: Final = 1_024
"""Maximum number of characters of one pattern."""

_DOCUMENT = ("floating", "budgets")
_BUDGET = ("name", "limit", "members", "budgets")
_MEMBER = ("rm", "partition", "queue")

Tell = Callable[[str, str], None]
"""Reports a problem: its message, and the field of the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetTree:
    """All budgets, parents before children, and the types that no node has."""

    budgets: tuple[Budget, ...] = ()
    floating: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def load_budgets(text: str, *, strict: bool = False) -> BudgetTree:
    """Read a tree of budgets; an empty text has no budgets.

    Raises:
        ConfigError: the text cannot be used; the error has every problem that was found. In strict
            mode a warning is a problem as well.
    """
    report = Report(strict=strict)
    document = read_document(text, report)
    if _is_empty(document):
        report.raise_problems()
        return BudgetTree()
    fields = Cursor(document, "", report).fields(_DOCUMENT)
    floating = _floating(fields["floating"])
    budgets: list[Budget] = []
    rules = _Rules()
    for cursor in fields["budgets"].items():
        _read(cursor, "", budgets, rules)
    report.raise_problems()
    return BudgetTree(budgets=tuple(budgets), floating=floating, warnings=report.warnings)


def _is_empty(document: Node | None) -> bool:
    return document is None or (isinstance(document, Scalar) and document.is_null)


def _floating(cursor: Cursor) -> frozenset[str]:
    names = set()
    for item in cursor.items():
        item.report.count(FLOATING, item.path)
        name = item.text()
        if item.is_faulty:
            continue
        problem = _wrong_type(name)
        if problem:
            item.problem(problem)
        names.add(name)
    return frozenset(names)


def _read(cursor: Cursor, above: str, budgets: list[Budget], rules: "_Rules") -> None:
    """Read a budget, then its children."""
    report, fields = cursor.report, cursor.fields(_BUDGET)
    report.count(BUDGETS, cursor.path)
    name = fields["name"].text()
    if SEPARATOR in name:
        fields["name"].problem(f"invalid name '{shown(name)}', budgets below it are given in its 'budgets'")
        return
    members = []
    for item in fields["members"].items():
        report.count(MEMBERS, item.path)
        members.append(_member(item))
    budget = Budget(
        name=f"{above}{SEPARATOR}{name}" if above else name,
        limit=fields["limit"].resources() or {},
        members=tuple(members),
    )
    place = cursor.path

    def tell(message: str, field: str) -> None:
        report.problem(message, f"{place}.{field}")

    if not fields["name"].is_faulty and rules.check(budget, tell):
        budgets.append(budget)
        for child in fields["budgets"].items():
            _read(child, budget.name, budgets, rules)


def _member(cursor: Cursor) -> BudgetPattern:
    fields = cursor.fields(_MEMBER)
    rm, partition, queue = (fields[key].text() or WILDCARD for key in _MEMBER)
    return BudgetPattern(rm=rm, partition=partition, queue=queue)


def check_budgets(budgets: Sequence[Budget], floating: Iterable[str] = ()) -> None:
    """Check budgets that were not read by `load_budgets`, parents before children.

    Raises:
        ConfigError: they cannot be used; the error has every problem that was found.
    """
    problems: list[Problem] = []
    types = sorted(floating)
    wrong = [problem for problem in map(_wrong_type, types[: FLOATING.limit]) if problem]
    if len(types) > FLOATING.limit:
        wrong.append(_too_many(len(types), FLOATING))
    problems += [Problem(message=message, path="floating") for message in wrong]
    if len(budgets) > BUDGETS.limit:
        problems.append(Problem(message=_too_many(len(budgets), BUDGETS), path="budgets"))
        raise ConfigError(problems)
    rules = _Rules()
    for number, budget in enumerate(budgets):
        place = f"budgets[{number}]"

        def tell(message: str, field: str, place: str = place) -> None:
            problems.append(Problem(message=message, path=f"{place}.{field}"))

        rules.check(budget, tell)
    members = sum(len(budget.members) for budget in budgets)
    if members > MEMBERS.limit:
        problems.append(Problem(message=_too_many(members, MEMBERS), path="budgets"))
    if problems:
        raise ConfigError(problems)


def check_slices(slices: Mapping[RmId, Resources]) -> None:
    """Check the slices of one budget.

    Raises:
        ConfigError: an amount is out of range; the error has every problem that was found.
    """
    problems: list[Problem] = []
    _check_slices(slices, lambda message, field: problems.append(Problem(message=message, path=field)))
    if problems:
        raise ConfigError(problems)


class _Rules:
    """The validation rules for one budget; earlier budgets are its context."""

    def __init__(self) -> None:
        """Start without budgets."""
        self._known: set[str] = set()
        self._wildcards = 0

    def check(self, budget: Budget, tell: Tell) -> bool:
        """Report all problems of a budget; True if its name is legal and new, and its parent exists."""
        self._check_members(budget, tell)
        _check_amounts(budget.limit, "limit", tell)
        _check_slices(budget.slices or {}, tell)
        problem = self._wrong_name(budget)
        if problem:
            tell(problem, "name")
        else:
            self._known.add(budget.name)
        return not problem

    def _wrong_name(self, budget: Budget) -> str:
        name, levels = budget.name, budget.name.split(SEPARATOR)
        if not all(map(is_partition_name, levels)):
            return (
                f"invalid name '{shown(name)}', max 64 characters consisting of alphanumeric "
                "characters and '-', '_', '.', '#', '@', ':' allowed"
            )
        if len(levels) > MAX_LEVELS:
            return f"{len(levels)} levels of budgets, at most {MAX_LEVELS} are allowed"
        if name in self._known:
            return f"duplicate budget '{shown(name)}'"
        if budget.parent and budget.parent not in self._known:
            return f"no budget '{shown(budget.parent)}' comes before '{shown(name)}', which is below it"
        return ""

    def _check_members(self, budget: Budget, tell: Tell) -> None:
        if len(budget.members) > MAX_MEMBERS:
            tell(f"{len(budget.members)} members, at most {MAX_MEMBERS} are allowed", "members")
            return
        for number, member in enumerate(budget.members):
            for key in _MEMBER:
                pattern: str = getattr(member, key)
                at = f"members[{number}].{key}"
                if not pattern:
                    tell("an empty pattern, write * for all", at)
                elif len(pattern) > MAX_PATTERN:
                    tell(f"{len(pattern)} characters, at most {MAX_PATTERN} are allowed", at)
            self._wildcards += WILDCARD in member.queue and member.queue != WILDCARD
            if self._wildcards == QUEUE_WILDCARDS.limit + 1:
                tell(_too_many(self._wildcards, QUEUE_WILDCARDS), f"members[{number}].queue")


def _check_slices(slices: Mapping[RmId, Resources], tell: Tell) -> None:
    for rm_id, amounts in slices.items():
        _check_amounts(amounts, f"slices[{shown(rm_id)}]", tell)


def _check_amounts(amounts: Resources, field: str, tell: Tell) -> None:
    for name, value in amounts.items():
        if not name:
            tell("a resource without a name", field)
        if not 0 <= value <= INT64_MAX:
            tell(f"{shown(name)} of {value}, expected 0 to {INT64_MAX}", field)


def _wrong_type(name: str) -> str:
    """Problem of a floating type; empty if there is none."""
    if not name:
        return "a resource without a name"
    if name in (VCORE, MEMORY):
        return f"{name} is a resource of nodes and cannot float"
    return ""


def _too_many(number: int, cap: Cap) -> str:
    return f"{number} {cap.what}, at most {cap.limit} are allowed"
