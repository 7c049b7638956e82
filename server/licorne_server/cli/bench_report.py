"""`licorne bench --report`: what was measured, as a page with pictures."""

import argparse
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from licorne_server.bench.installation import Build
from licorne_server.bench.markdown import put_section
from licorne_server.bench.report import Run
from licorne_server.bench.scenarios import Scenario
from licorne_server.cli.connection import UsageError
from licorne_server.cli.output import say

VALUES = ("nodes", "pods", "batch", "sort", "wire", "refuse", "answer_after", "runs", "against")
FLAGS = ("untagged", "table")
"""The arguments that say what is measured, by their names there."""


@dataclass(frozen=True, slots=True)
class Report:
    """Where to write, and the command to measure the same with."""

    folder: Path
    command: str

    def write(
        self, results: Iterable[tuple[Scenario, Sequence[Sequence[Run]]]], builds: Sequence[Build]
    ) -> None:
        """Write the runs of each scenario, of one side or two, and say where they are."""
        from licorne_server.bench.page import Measured, section

        measured = [Measured(scenario, sides) for scenario, sides in results]
        page = put_section(self.folder, section(measured, builds, self.command))
        say(f"written: {page}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The argument that names the folder."""
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="write tables into DIR/performance.md, and pictures beside it; needs matplotlib",
    )


def wanted(args: argparse.Namespace) -> Report | None:
    """The report that is wanted, if one is.

    Raises:
        UsageError: pictures cannot be drawn.
    """
    if args.report is None:
        return None
    need_matplotlib()
    return Report(args.report, shlex.join(command(args)))


def need_matplotlib() -> None:
    """Refuse to begin what would end without its pictures.

    Raises:
        UsageError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise UsageError("--report needs matplotlib: pip install 'licorne-server[report]'")


def command(args: argparse.Namespace) -> list[str]:
    """The command that measures the same."""
    words = ["licorne", "bench", args.scenario, *args.more]
    for name in (*VALUES, *FLAGS, "report"):
        value = getattr(args, name)
        if value is not None:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if name in FLAGS else [str(value)]
    return words
