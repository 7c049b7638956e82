"""`licorne bench utilisation`: how much of a cluster is used, with and without reservations."""

import argparse
from dataclasses import asdict
from typing import Any

from licorne_cli.connection.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_cli.parsing.arguments import positive
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.progress import Progress
from licorne_tools.bench.report import NOTHING, environment, readable, rounded
from licorne_tools.bench.utilisation import Figures, played
from licorne_tools.bench.utilisation_loads import Load, loads
from licorne_tools.commands.alone import Alone
from licorne_tools.commands.outcome import Outcome
from licorne_tools.commands.progress import shown

NAME = "utilisation"
UTILISATION = {NAME: "share of a cluster that is used in an hour, with and without reservations"}
"""The scenario, and what it is about. It is not one of `all`."""

SEED = 1
MINUTES = 60

COLUMNS = {
    "CORES %": "cores_percent",
    "WARM %": "warm_cores_percent",
    "BELOW S": "below_guarantee_seconds",
    "BACKLOG": "backlog_asks",
    "A MINUTE": "backlog_per_minute",
    "LARGE P50 S": "large_p50_seconds",
    "MAX S": "large_max_seconds",
    "RESERVED": "reserved_nodes_mean",
    "MAX": "reserved_nodes_max",
    "PREEMPTED": "preempted",
}
"""The columns of the table, and the measures in them."""

OF_LARGE = ("large_p50_seconds", "large_max_seconds")
ALONE = Alone(
    UTILISATION,
    own=("seed", "minutes"),
    refused=("nodes", "pods", "batch", "sort", "wire", "profile", "against", "report"),
)

Played = tuple[Load, bool, Figures]
"""A load, whether nodes were reserved, and what came of it."""


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """The arguments of this one alone."""
    add = group.add_argument
    add("--seed", type=int, metavar="N", help=f"how long allocations run ({SEED})")
    add("--minutes", type=positive, metavar="N", help=f"on a clock of its own ({MINUTES})")


def run(args: argparse.Namespace) -> int:
    """Play and print; the exit code as that of `licorne bench`.

    Raises:
        UsageError: the arguments make no sense together.
    """
    if args.runs > 1:
        raise UsageError(f"--runs cannot be used with {NAME}: the same seed has the same figures")
    seed = SEED if args.seed is None else args.seed
    minutes = args.minutes or MINUTES
    outcome, progress = Outcome(), Progress()
    found: list[Played] = []
    say(str(this_build()))
    with shown(progress), outcome:
        for load in loads():
            progress.begin(f"{NAME} {load.name}")
            for reservations in (True, False):
                figures = played(load, seed=seed, seconds=minutes * 60, reservations=reservations)
                found.append((load, reservations, figures))
    if found:
        with while_read():
            show(found, seed, minutes, as_data=args.json)
    return outcome.code


def show(found: list[Played], seed: int, minutes: int, *, as_data: bool) -> None:
    """Everything that was played: a table, or an array of objects."""
    if as_data:
        print_json([as_json(each, seed, minutes) for each in found])
        return
    print(f"{NAME}: {UTILISATION[NAME]} ({minutes} minutes, seed {seed})")
    print_table(("LOAD", "RESERVATIONS", *COLUMNS), [line(each) for each in found])


def line(played_: Played) -> list[str]:
    """The cells of a load."""
    load, reservations, figures = played_
    hidden = () if figures.large_asks else OF_LARGE
    cells = [
        NOTHING if measure in hidden else readable(getattr(figures, measure))
        for measure in COLUMNS.values()
    ]
    return [load.name, "yes" if reservations else "no", *cells]


def as_json(played_: Played, seed: int, minutes: int) -> dict[str, Any]:
    """Everything about a load, rounded as other scenarios are."""
    load, reservations, figures = played_
    return {
        "scenario": NAME,
        "name": load.name,
        "about": load.about,
        "reservations": reservations,
        "seed": seed,
        "minutes": minutes,
        **{name: rounded(value) for name, value in asdict(figures).items()},
        "environment": environment(),
    }
