"""`licorne budgets`: budgets over RMs, and each RM's part; `apply` replaces all, `release` frees a part."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from licorne.v1.admin_pb2 import (
    GetBudgetsRequest,
    ReleaseBudgetRequest,
    ReleaseBudgetResponse,
    UpdateBudgetsRequest,
    UpdateBudgetsResponse,
)
from licorne.v1.state_pb2 import Budget, BudgetHolding, ListBudgetsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.config.files import read_file, refused_by_line
from licorne_cli.config.reading import diff_lines
from licorne_cli.connection import channel
from licorne_cli.failures import UsageError
from licorne_cli.nouns.noun import Act, Noun, Verb, add_message
from licorne_cli.output.listing import Column, Listing
from licorne_cli.output.text import DATA_FORMS, NOTHING, counted, human_resources, printable, say
from licorne_cli.parsing.parser import did_you_mean, revision

EXAMPLES = (
    ("licorne budgets", "all of them, and what each RM has"),
    ("licorne budgets company/research -o json", "one of them, for programs"),
    ("licorne budgets apply budgets.yaml --message 'ten more licences'", "replace them by those of a file"),
    ("licorne budgets release old-cluster --yes", "free what an RM holds that will not come back"),
)


class BudgetRow(NamedTuple):
    """A whole budget, or one RM's part of it."""

    budget: Budget
    holding: BudgetHolding | None = None

    @property
    def rm_id(self) -> str:
        """The RM, or a dash."""
        return self.holding.rm_id if self.holding else NOTHING

    @property
    def limit(self) -> Mapping[str, int]:
        """The limit of the budget; empty for an RM."""
        return {} if self.holding else self.budget.limit

    @property
    def slice(self) -> Mapping[str, int]:
        """The slice of an RM."""
        return self.holding.slice if self.holding else {}

    @property
    def used(self) -> str:
        """The used amount; unknown for an RM that another member serves."""
        if self.holding and not self.holding.here:
            return "?"
        return human_resources(self.holding.used if self.holding else self.budget.used)

    @property
    def unassigned(self) -> Mapping[str, int]:
        """The unassigned remainder of the budget; empty for an RM."""
        return {} if self.holding else self.budget.unassigned

    @property
    def wanted(self) -> Mapping[str, int]:
        """The additional amount that an RM needs."""
        return self.holding.wanted if self.holding else {}

    @property
    def overdraft(self) -> Mapping[str, int]:
        """The use of an RM beyond its slice."""
        return self.holding.overdraft if self.holding else {}


def rows(budget: Budget) -> Iterator[BudgetRow]:
    """A row for the budget, then a row for each of its RMs."""
    yield BudgetRow(budget)
    for holding in budget.holdings:
        yield BudgetRow(budget, holding)


BUDGETS = Listing[Budget](
    kind="budget",
    plural="budgets",
    name="name",
    rows=rows,
    columns=(
        Column("BUDGET", "budget.name", head=True),
        Column("RM", "rm_id", head=True),
        Column("LIMIT", "limit", human_resources),
        Column("SLICE", "slice", human_resources, optional=True),
        Column("USED", "used"),
        Column("UNASSIGNED", "unassigned", human_resources),
        Column("WANTED", "wanted", human_resources, optional=True),
        Column("OVERDRAFT", "overdraft", human_resources, optional=True),
    ),
)


def listed_budgets(stub: StateStub, args: argparse.Namespace, _partition: str) -> Iterable[Budget]:
    """All budgets, page by page."""
    return channel.rows(stub.ListBudgets, ListBudgetsRequest(), "budgets", args.timeout)


def missing(name: str, budgets: Sequence[Budget], _args: argparse.Namespace, _partition: str) -> str:
    """The message for an unknown budget."""
    return f"budget {printable(name)} not found{did_you_mean(name, (one.name for one in budgets))}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `apply`."""
    add_message("why, kept with the budgets")(parser)
    parser.add_argument(
        "--base",
        type=revision,
        default=0,
        metavar="N",
        help="refuse if another revision than this is in force (default: the one that is shown)",
    )


def plan_apply(act: Act, names: Sequence[str]) -> list[str]:
    """Print the difference of the file from the budgets in force; return it for stderr if data is printed.

    Raises:
        UsageError: there are several files, or the file cannot be read.
    """
    if len(names) > 1:
        raise UsageError("one file has all budgets: name one")
    act.args.file = names[0]
    act.args.text = text = read_file(act.args, "file of budgets")
    running = act.admin.GetBudgets(GetBudgetsRequest(), timeout=act.timeout)
    act.args.base = act.args.base or running.revision
    lines = diff_lines(f"budgets revision {running.revision}", running.budgets, names[0], text)
    if lines and act.args.output not in DATA_FORMS:
        print(*lines, sep="\n")
        return []
    return lines or [f"{printable(names[0])} is in force already"]


def apply(act: Act, name: str) -> tuple[UpdateBudgetsResponse, str]:
    """Replace all budgets by those of a file.

    Raises:
        RefusedError: the file has problems, or another revision was stored meanwhile.
    """
    request = UpdateBudgetsRequest(
        budgets=act.args.text, base_revision=act.args.base, comment=act.args.message
    )
    with refused_by_line(printable(name), lambda error: [printable(str(error.details()))]):
        answer = act.admin.UpdateBudgets(request, timeout=act.timeout)
    for warning in answer.warnings:
        say(printable(f"{name}:{warning} (warning)"))
    same = "" if answer.changed else ", with the text that was in force already"
    lost = "" if answer.persistent else "; the server has no --state-dir, so that its restart undoes it"
    return answer, f"budgets: revision {answer.revision} is in force{same}{lost}"


def plan_release(_act: Act, names: Sequence[str]) -> list[str]:
    """A line for each RM whose part will be released."""
    return [f"what RM {printable(name)} holds of budgets is to be free for others" for name in names]


def release(act: Act, name: str) -> tuple[ReleaseBudgetResponse, str]:
    """Free the amounts of an RM that no member serves."""
    answer = act.admin.ReleaseBudget(
        ReleaseBudgetRequest(rm_id=name, message=act.args.message), timeout=act.timeout
    )
    return answer, f"RM {printable(name)} released: it held something of {counted(answer.budgets, 'budget')}"


NOUN = Noun(
    listing=BUDGETS,
    about="only this budget",
    items=listed_budgets,
    missing=missing,
    partitioned=False,
    verbs={
        "apply": Verb(
            "replace all budgets by those of a file; - for stdin", apply, plan_apply, "FILE", add_options
        ),
        "release": Verb(
            "free what an RM holds that is gone",
            release,
            plan_release,
            "RM",
            add_message("why, for the audit log"),
        ),
    },
)
add_arguments, run = NOUN.add_arguments, NOUN.run
