"""`licorne bench utilisation`: the used share of a cluster, with and without reservations."""

import argparse
from dataclasses import asdict
from typing import Any, NamedTuple

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_cli.parsing.parser import positive
from licorne_tools.bench.driver import Progress
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.report import NOTHING, Spread, environment, readable, rounded
from licorne_tools.bench.utilisation import UtilisationFigures, played
from licorne_tools.bench.utilisation_loads import LoadWorld, loads
from licorne_tools.commands.outcome import Alone, Outcome, shown

NAME = "utilisation"
UTILISATION = {NAME: "share of a cluster that is used in an hour, with and without reservations"}
"""The scenario and its description; `all` does not include it."""

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
"""The columns of the table, and their measures."""

OF_LARGE = ("large_p50_seconds", "large_max_seconds")
ALONE = Alone(
    UTILISATION,
    own=("seed", "seeds", "minutes"),
    refused=("nodes", "pods", "batch", "sort", "wire", "profile", "against", "report", "pictures"),
)


class Played(NamedTuple):
    """A load, a flag whether nodes could be reserved, and the figures by seed."""

    load: LoadWorld
    reservations: bool
    figures: dict[int, UtilisationFigures]


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the arguments that only this scenario has."""
    add = group.add_argument
    add("--seed", type=int, metavar="N", help=f"how long allocations run ({SEED})")
    add("--seeds", type=positive, metavar="N", help="so many, from --seed on (1)")
    add("--minutes", type=positive, metavar="N", help=f"on a clock of its own ({MINUTES})")


def run(args: argparse.Namespace) -> int:
    """Simulate, and print; returns the exit code of `licorne bench`.

    Raises:
        UsageError: the arguments contradict each other.
    """
    if args.runs > 1:
        raise UsageError(f"--runs cannot be used with {NAME}: --seeds draws other runs")
    first = SEED if args.seed is None else args.seed
    seeds = range(first, first + (args.seeds or 1))
    minutes = args.minutes or MINUTES
    outcome, progress = Outcome(), Progress()
    found: list[Played] = []
    say(str(this_build()))
    with shown(progress), outcome:
        for load in loads():
            progress.begin(f"{NAME} {load.name}")
            for reservations in (True, False):
                figures = {
                    seed: played(load, seed=seed, seconds=minutes * 60, reservations=reservations)
                    for seed in seeds
                }
                found.append(Played(load, reservations, figures))
    if found:
        with while_read():
            show(found, minutes, as_data=args.json)
    return outcome.code


def show(found: list[Played], minutes: int, *, as_data: bool) -> None:
    """Print a table or, with `as_data`, an array with a JSON object for each load and seed."""
    if as_data:
        print_json([as_json(each, seed, minutes) for each in found for seed in each.figures])
        return
    first, *others = found[0].figures
    seeds = f"seeds {first} to {others[-1]}" if others else f"seed {first}"
    print(f"{NAME}: {UTILISATION[NAME]} ({minutes} minutes, {seeds})")
    print_table(("LOAD", "RESERVATIONS", *COLUMNS), [line(each) for each in found])


def line(played_: Played) -> list[str]:
    """The cells of a row; for several seeds, medians with minimum and maximum."""
    load, reservations, figures = played_
    runs = list(figures.values())
    hidden = () if any(run.large_asks for run in runs) else OF_LARGE
    cells = [
        NOTHING if measure in hidden else Spread.of(getattr(run, measure) for run in runs).quoted(readable)
        for measure in COLUMNS.values()
    ]
    return [load.name, "yes" if reservations else "no", *cells]


def as_json(played_: Played, seed: int, minutes: int) -> dict[str, Any]:
    """A load with one seed as JSON."""
    load, reservations, figures = played_
    return {
        "scenario": NAME,
        "name": load.name,
        "about": load.about,
        "reservations": reservations,
        "seed": seed,
        "minutes": minutes,
        **{name: rounded(value) for name, value in asdict(figures[seed]).items()},
        "environment": environment(),
    }
