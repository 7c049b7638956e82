"""`licorne bench --report`: results as a page, optionally with pictures."""

import argparse
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from licorne_cli.failures import UsageError
from licorne_cli.output.text import say
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.installation import Build
from licorne_tools.bench.page import Measured, Section, put_section, section
from licorne_tools.bench.report import Run
from licorne_tools.bench.scenarios import Scenario

VALUES = (
    "nodes",
    "pods",
    "batch",
    "sort",
    "wire",
    "refuse",
    "answer_after",
    "shape",
    "rate",
    "only",
    "runs",
    "against",
)
FLAGS = ("untagged", "table", "pictures")
"""Names of the arguments, with and without a value, that determine the measurement."""


@dataclass(frozen=True, slots=True)
class Report:
    """The folder to which reports are written, and the command that repeats the measurement."""

    folder: Path
    command: str
    drawn: bool = False
    """True to draw pictures too."""

    def write(
        self, results: Iterable[tuple[Scenario, Sequence[Sequence[Run]]]], builds: Sequence[Build]
    ) -> None:
        """Write the runs of each scenario, for one or two servers, and print the name of the page.

        Raises:
            BenchError: the page cannot be written.
        """
        measured = [Measured(scenario, sides) for scenario, sides in results]
        self.put(section(measured, builds, self.command, drawn=self.drawn))

    def put(self, section: Section) -> None:
        """Write a section, and print the name of the page.

        Raises:
            BenchError: the page cannot be written.
        """
        try:
            page = put_section(self.folder, section)
        except (OSError, UnicodeError) as error:
            raise BenchError(f"--report: {error}") from None
        say(f"written: {page}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--report` and `--pictures`."""
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="write tables into DIR/performance.md",
    )
    parser.add_argument(
        "--pictures",
        action="store_true",
        default=None,
        help="with --report: draw pictures beside the page; needs matplotlib",
    )


def wanted(args: argparse.Namespace) -> Report | None:
    """The report that the arguments request; None without `--report`.

    Raises:
        UsageError: pictures cannot be drawn, or the folder cannot be written into.
    """
    if args.report is None:
        if args.pictures:
            raise UsageError("--pictures needs --report")
        return None
    if args.pictures:
        need_matplotlib()
    need_folder(args.report)
    return Report(args.report, shlex.join(command(args)), drawn=bool(args.pictures))


def need_matplotlib() -> None:
    """Check before the measurement that pictures can be drawn.

    Raises:
        UsageError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise UsageError("--pictures needs matplotlib, which `make install` installs")


def need_folder(folder: Path) -> None:
    """Check before the measurement that files can be created in the folder; none is left there.

    Raises:
        UsageError: no file can be created in the folder, or the folder cannot be created.
    """
    try:
        known = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        with TemporaryFile(dir=known):
            pass
    except OSError as error:
        raise UsageError(f"--report: cannot write into {folder}: {error.strerror}") from None


def command(args: argparse.Namespace) -> list[str]:
    """The command that repeats the measurement."""
    words = ["licorne", "bench", args.scenario, *args.more]
    for name in (*VALUES, *FLAGS, "report"):
        value = getattr(args, name)
        if value is not None:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if name in FLAGS else [str(value)]
    return words
