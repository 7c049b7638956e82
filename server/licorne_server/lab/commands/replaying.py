"""The work of `licorne replay`: plays both runs, and prints their comparison."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from licorne_cli.config.files import located
from licorne_cli.failures import NEEDS_LOOK, OK, NotFoundError, RefusedError, UsageError
from licorne_cli.output.text import print_json, print_sentence, print_table, printable, say
from licorne_core.config import load
from licorne_core.config.caps import MAX_BYTES
from licorne_core.config.schema import Configuration
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import RmId
from licorne_server.lab.commands.runs import Run, Teller, shown_moment, torn_text
from licorne_server.lab.simulation.acting import Carried
from licorne_server.lab.simulation.changes import Changes, parse_nodes
from licorne_server.lab.simulation.comparing import ChangeRefused, Compared, Comparison
from licorne_server.lab.simulation.differing import Difference
from licorne_server.lab.simulation.lives import Lives
from licorne_server.lab.simulation.measures import Measures
from licorne_server.lab.simulation.picture import draw
from licorne_server.lab.simulation.player import Watcher
from licorne_server.lab.simulation.replaying import Replayed, replay
from licorne_server.lab.simulation.report import (
    HEADERS,
    MOST_ROWS,
    USE_HEADERS,
    as_data,
    rows,
    shown_seconds,
    use_rows,
)
from licorne_server.lab.simulation.summary import Summary

LIVE, CHANGED = "live", "with changes"


def replay_and_print(args: argparse.Namespace) -> int:
    """Replay a run as `args` say; returns the exit code.

    Raises:
        UsageError, NotFoundError: an argument is invalid.
        RefusedError: an RM refuses the configuration.
    """
    changes = _changes(args)
    if args.picture is not None and args.picture.suffix != ".svg":
        raise UsageError(f"--picture {printable(str(args.picture))}: it is SVG, so its name ends in .svg")
    run = Run(args.journal, args.run)
    until = run.moment(args.until, "--until")
    watching = _Watching(keep=changes is not None)
    begun = monotonic()
    live = replay(run.records(), until, Teller("replaying", run.header.start), watching.of_live)
    seconds = monotonic() - begun
    sides = {LIVE: watching.measures[0].summary(live.end)} if live.inputs else {}
    compared = None
    if changes is not None and watching.lives is not None and sides:
        compared = _compared(run, until, changes, watching, live)
        sides[CHANGED] = watching.measures[1].summary(live.end)
    if args.picture is not None and sides:
        _draw(args.picture, run, sides)
    if args.output == "json":
        print_json(_data(run, live, seconds, sides, compared))
    else:
        _print(run, live, seconds, sides, compared)
    if live.torn is not None:
        say(f"licorne: {torn_text(live.torn)}")
    return OK if live.differs is None else NEEDS_LOOK


class _Watching:
    """The watchers of the core of each run."""

    def __init__(self, *, keep: bool) -> None:
        self.measures: list[Measures] = []
        self.lives: Lives | None = None
        self._keep = keep

    def of_live(self, scheduler: Scheduler) -> Sequence[Watcher]:
        """Watchers that measure the run and, with `keep`, record what a run with changes needs."""
        measures = self.of_changed(scheduler)
        if not self._keep:
            return measures
        self.lives = Lives(scheduler)
        return (*measures, self.lives)

    def of_changed(self, scheduler: Scheduler) -> Sequence[Watcher]:
        """Watchers that measure a run with changes."""
        self.measures.append(Measures(scheduler))
        return self.measures[-1:]


def _changes(args: argparse.Namespace) -> Changes | None:
    """The changes that the options describe; None if there are none."""
    if args.config is None and not args.nodes:
        if args.rm:
            raise UsageError("--rm goes with --config or --nodes")
        return None
    try:
        nodes = tuple(map(parse_nodes, args.nodes))
    except ValueError as error:
        raise UsageError(f"--nodes: {printable(str(error))}") from None
    rms = frozenset(map(RmId, args.rm)) if args.rm else None
    return Changes(config=_configuration(args.config), nodes=nodes, rms=rms)


def _configuration(file: Path | None) -> Configuration | None:
    if file is None:
        return None
    name = printable(str(file))
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    try:
        return load(text, required=True)
    except ConfigError as error:
        raise RefusedError(located(name, error.problems)) from None


def _compared(run: Run, until: float, changes: Changes, watching: _Watching, live: Replayed) -> Compared:
    """Replay the run with changes, and compare it with the live run."""
    lives = watching.lives
    assert lives is not None
    lives.close(live.end)
    known = sorted(lives.rms)
    for rm_id in sorted(changes.rms or ()):
        if rm_id not in lives.rms:
            there = printable(", ".join(known)) or "none"
            raise NotFoundError(f"RM {printable(rm_id)} is not in the run; there: {there}")
    if changes.nodes and changes.rms is None and len(known) > 1:
        raise UsageError(f"--nodes: say whose: --rm, one of {printable(', '.join(known))}")
    try:
        comparison = Comparison(run.records(), lives, changes, watching.of_changed)
        return comparison.play(until, Teller("replaying with changes", run.header.start))
    except ChangeRefused as error:
        raise RefusedError([f"licorne: the configuration is refused: {printable(str(error))}"]) from None


def _draw(file: Path, run: Run, sides: Mapping[str, Summary]) -> None:
    title = f"Run {run.number} from {shown_moment(run.header.start)}"
    try:
        file.write_text(draw(title, {name: side.course for name, side in sides.items()}), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--picture {printable(str(file))}: {error.strerror}") from None


def _print(
    run: Run, live: Replayed, seconds: float, sides: Mapping[str, Summary], compared: Compared | None
) -> None:
    start = run.header.start
    passed = live.end - start
    speed = f", {passed / seconds:,.0f} times as fast as live" if seconds else ""
    print_sentence(
        f"run {run.number}: {shown_moment(start)} to {shown_moment(live.end)} ({shown_seconds(passed)}),"
        f" {live.inputs:,} inputs in {shown_seconds(seconds)}{speed}"
    )
    print_sentence(_equality(live))
    if live.player.defects:
        print_sentence(f"the core has failed in {live.player.defects:,} of the inputs, as it has live")
    if compared is not None:
        print_sentence(_difference(compared.difference, start))
        for line in _carried(compared.carried, compared.player.defects):
            print_sentence(line)
    both = list(sides.values())
    if both:
        print()
        table = rows(both)
        print_table(HEADERS, table[:MOST_ROWS])
        if len(table) > MOST_ROWS:
            print_sentence(f"and {len(table) - MOST_ROWS:,} more queues, which -o json has")
        print()
        print_table(USE_HEADERS, use_rows(both), heads=2)


def _equality(live: Replayed) -> str:
    if live.differs is not None:
        return (
            f"decisions DIFFER from those of the journal, first among the {live.differs:,} first inputs:"
            f" {live.digests - 1:,} of {live.digests:,} sums were equal until then"
        )
    if not live.digests:
        return "decisions: the journal has no sum of them so far"
    return f"decisions: equal to those of the journal, in {live.digests:,} of {live.digests:,} sums"


def _difference(difference: Difference | None, start: float) -> str:
    if difference is None:
        return "with changes: no decision differs"
    _, where, app_id, key = difference.decision
    after = shown_seconds(difference.time - start)
    return (
        f"first decision that differs: at {shown_moment(difference.time)} (+{after}),"
        f" ask {printable(key)} of application {printable(app_id)} in {printable(where)}:"
        f" live {printable(difference.live)}; with changes {printable(difference.changed)}"
    )


def _carried(carried: Carried, defects: int) -> list[str]:
    left_out = sum(carried.left_out.values())
    text = f"inputs: {carried.inputs:,} at their times, {carried.retimed:,} releases at others"
    if carried.answered:
        text += f", {carried.answered:,} checks answered, {carried.refused:,} nodes refused in them"
    lines = [f"{text}; {left_out:,} could not be carried over"]
    if defects:
        lines.append(f"the core has failed in {defects:,} of the inputs with changes, which is a fault of it")
    lines += [f"  {count:,} {reason}" for reason, count in sorted(carried.left_out.items())]
    if carried.estimated:
        lines.append(
            f"runtimes: {carried.estimated:,} allocations have that of others, as they had none live"
        )
    return lines


def _data(
    run: Run, live: Replayed, seconds: float, sides: Mapping[str, Summary], compared: Compared | None
) -> dict[str, Any]:
    torn = live.torn
    data: dict[str, Any] = {
        "run": run.number,
        "version": run.header.version,
        "begin": run.header.start,
        "end": live.end,
        "inputs": live.inputs,
        "seconds": round(seconds, 3),
        "complete": live.complete and torn is None,
        "torn": None if torn is None else {"file": torn.file, "offset": torn.offset, "reason": torn.reason},
        "sums": {"compared": live.digests, "equal": live.differs is None, "differsWithin": live.differs},
        "defects": live.player.defects,
        "live": as_data(sides[LIVE]) if sides else None,
    }
    if compared is None:
        return data
    carried, found = compared.carried, compared.difference
    return {
        **data,
        "changed": as_data(sides[CHANGED]),
        "changedDefects": compared.player.defects,
        "firstDifference": None
        if found is None
        else {
            "time": found.time,
            "decision": found.decision.what.value,
            "where": found.decision.where,
            "application": found.decision.app_id,
            "ask": found.decision.key,
            "live": found.live,
            "changed": found.changed,
        },
        "carried": {
            "inputs": carried.inputs,
            "retimed": carried.retimed,
            "answered": carried.answered,
            "refused": carried.refused,
            "estimated": carried.estimated,
            "leftOut": dict(sorted(carried.left_out.items())),
        },
    }
