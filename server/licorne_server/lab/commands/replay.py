"""`licorne replay`: replays a recorded run in a core, unchanged or with changes."""

import argparse
from pathlib import Path

from licorne_server.lab.commands.journals import MOMENT, add_journal_arguments, with_journal

EXAMPLES = (
    ("licorne replay journal", "check that the last run decides the same again, and measure it"),
    ("licorne replay journal --config new.yaml", "what another configuration would have done"),
    (
        "licorne replay journal --nodes +20xvcore=32,memory=128Gi,rack=r7",
        "what twenty more nodes would have done",
    ),
    ("licorne replay journal --run 3 --until +2h -o json", "two hours of an earlier run, for programs"),
    ("licorne replay journal --config new.yaml --picture both.svg", "both courses in a picture"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne replay`."""
    add_journal_arguments(parser)
    add = parser.add_argument
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="the configuration that RMs have instead of theirs",
    )
    add(
        "--nodes",
        action="append",
        default=[],
        metavar="+Nx...",
        help="more nodes: +20xvcore=32,memory=128Gi, and attributes, such as rack=r7; repeatable",
    )
    add(
        "--rm",
        action="append",
        default=[],
        metavar="ID",
        help="the RM that --config and --nodes are for (default: all); repeatable",
    )
    add("--until", default="", metavar="T", help=f"where to end: {MOMENT}")
    add("--picture", type=Path, metavar="FILE", help="draw waits and utilisation over time, as SVG")
    add("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    add("-o", "--output", default="text", choices=("text", "json"), help="(%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Replay and print; return the exit code.

    0: without changes all decisions equal those of the journal; 1: the journal is unreadable; 3: the run or
    the RM does not exist; 4: an RM refuses the configuration; 6: decisions differ from the journal although
    nothing was changed.
    """
    return with_journal(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    # The module needs packages of the server's extra for journals.
    from licorne_server.lab.commands.replaying import replay_and_print

    return replay_and_print(args)
