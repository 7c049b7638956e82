"""``licorne validate-config FILE...``: checks of configuration files (spec § 13.3)."""

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from licorne_cli.config.files import located
from licorne_cli.failures import OK, REFUSED, USAGE
from licorne_cli.output.text import human_text, print_json, while_read
from licorne_core.config import load
from licorne_core.config.caps import MAX_BYTES
from licorne_core.values.errors import ConfigError, Problem

EXAMPLES = (
    ("licorne validate-config queues.yaml", "all problems of a file"),
    (
        "licorne validate-config --strict queues.yaml",
        "refuse what is dubious, mistyped properties too",
    ),
    ("licorne validate-config - < queues.yaml", "what another command writes"),
)
STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Verdict on one file; `unreadable` is the reason if the file could not be read."""

    file: str
    checksum: str = ""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unreadable: str = ""

    @property
    def exit_code(self) -> int:
        """Exit code if this is the only file."""
        return USAGE if self.unreadable else REFUSED if self.problems else OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne validate-config`."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help=f"what to check; {STDIN} is standard input")
    add("-o", "--output", default="text", choices=("text", "json", "github"), help="(%(default)s)")
    add("--strict", action="store_true", help="warnings are errors")


def run(args: argparse.Namespace) -> int:
    """Check all files and print their problems and warnings; returns the exit code.

    0: all files are valid; 1: a file cannot be read; 4: a file is invalid. Problems and warnings are
    written to stdout, everything else to stderr.
    """
    verdicts = [_judge(str(file), strict=args.strict) for file in args.files]
    with while_read():
        if args.output == "json":
            print_json([_as_json(verdict) for verdict in verdicts])
        for verdict in verdicts:
            if args.output != "json":
                for line in _github(verdict) if args.output == "github" else _text(verdict):
                    print(line)
            _talk(verdict)
    return max(verdict.exit_code for verdict in verdicts)


def _judge(file: str, *, strict: bool) -> Verdict:
    # A file name may be any bytes, but output is text.
    name = "<stdin>" if file == STDIN else file.encode("utf-8", "replace").decode()
    try:
        content = _content(file)
    except OSError as error:
        return Verdict(file=name, unreadable=error.strerror or str(error))
    try:
        configuration = load(content.decode("utf-8", "surrogateescape"), strict=strict, required=True)
    except ConfigError as error:
        return Verdict(file=name, problems=error.problems)
    return Verdict(
        file=name,
        checksum=configuration.checksum,
        warnings=configuration.warnings,
        notes=configuration.notes,
    )


def _content(file: str) -> bytes:
    """Content of a file, up to one byte above the limit: that byte shows that the file is too large."""
    if file == STDIN:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(file).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _talk(verdict: Verdict) -> None:
    if verdict.unreadable:
        print(f"{verdict.file}: cannot be read: {verdict.unreadable}", file=sys.stderr)
    elif verdict.problems:
        count = len(verdict.problems)
        print(f"{verdict.file}: {count} problem{'s'[: count > 1]}", file=sys.stderr)
    else:
        for note in verdict.notes:
            print(f"{verdict.file}: note: {note}", file=sys.stderr)
        print(f"{verdict.file}: valid, checksum {verdict.checksum}", file=sys.stderr)


def _text(verdict: Verdict) -> list[str]:
    """Lines ``file:line:column: path: message``, a format that editors recognize."""
    lines = located(verdict.file, verdict.problems)
    return [*lines, *(f"{verdict.file}:{warning} (warning)" for warning in verdict.warnings)]


def _github(verdict: Verdict) -> list[str]:
    """Workflow commands of GitHub, which show each problem beside its line in a review."""
    file = _property(verdict.file)
    lines = []
    for problem in verdict.problems:
        place = f",line={problem.line},col={problem.column}" if problem.line else ""
        message = f"{problem.path}: {problem.message}" if problem.path else problem.message
        lines.append(f"::error file={file}{place}::{_data(human_text(message))}")
    return [*lines, *(f"::warning file={file}::{_data(text)}" for text in verdict.warnings)]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _as_json(verdict: Verdict) -> dict[str, object]:
    return {
        "file": verdict.file,
        "valid": verdict.exit_code == OK,
        "checksum": verdict.checksum,
        "unreadable": verdict.unreadable,
        "problems": [asdict(problem) for problem in verdict.problems],
        "warnings": list(verdict.warnings),
        "notes": list(verdict.notes),
    }
