"""Replays a run unchanged: the same core, the same inputs, and the same decisions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from licorne_core.messages.commands import Command, Options
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler
from licorne_server.engine.journal.digest import DigestOf
from licorne_server.engine.journal.records import Digest, Header, Input, Record, Torn
from licorne_server.lab.simulation.player import Player, Watcher

EACH: Final = 4_096
"""Number of inputs between two reports of progress."""

Progress = Callable[[float], None]
"""Called repeatedly with the virtual time, in unix seconds."""


class NoRun(Exception):
    """The journal has no run to replay; the text gives the reason."""


@dataclass(slots=True, kw_only=True)
class Replayed:
    """A replayed run, or the requested part of one.

    `differs` is the number of inputs at the first digest of decisions that differs from the live run's
    digest; None if all are equal.
    """

    header: Header
    player: Player
    inputs: int = 0
    digests: int = 0
    """Number of compared digests of decisions."""
    differs: int | None = None
    torn: Torn | None = None
    """The place at which the journal breaks off; None if it does not."""
    complete: bool = True
    """False if there are later inputs than the requested ones."""
    end: float
    """Time of its end, in unix seconds: the time of the last input, or the requested end if it is earlier."""


def scheduler_of(options: Options) -> Scheduler:
    """An empty core with the recorded options of a run."""
    return Scheduler(
        default_config=options.default_config,
        reservations=options.reservations,
        ask_backoff=options.ask_backoff,
        tuning=options.tuning,
        rm_caps=options.rm_caps,
    )


def header_of(records: Iterator[Record]) -> Header:
    """The header in the first record; raises NoRun if the first record is no header."""
    first = next(records, None)
    if isinstance(first, Torn):
        raise NoRun(f"{first.file} cannot be read: {first.reason} (byte {first.offset})")
    if not isinstance(first, Header):
        raise NoRun("the run is empty")
    return first


def replay(
    records: Iterator[Record],
    until: float,
    progress: Progress,
    watched_by: Callable[[Scheduler], Sequence[Watcher]] = lambda _: (),
) -> Replayed:
    """Replay the inputs up to a time, `until` included; `watched_by` makes watchers of the new core.

    Raises:
        NoRun: the run has no beginning.
    """
    header = header_of(records)
    scheduler = scheduler_of(header.options)
    watchers = watched_by(scheduler)
    summing = _Summing()
    player = Player(scheduler, *watchers, summing, now=header.start)
    run = Replayed(header=header, player=player, end=header.start)
    for record in records:
        if isinstance(record, Input):
            if record.now > until:
                run.complete, run.end = False, until
                break
            player.handle(record.now, record.command)
            run.end = record.now
            run.inputs += 1
            if not run.inputs % EACH:
                progress(record.now)
        elif isinstance(record, Digest):
            _compare(run, record, summing.digest)
        elif isinstance(record, Torn):
            run.torn = record
    return run


def _compare(run: Replayed, live: Digest, mine: DigestOf) -> None:
    """Compare a recorded digest of decisions with the digest of this replay."""
    if run.differs is None:
        run.digests += 1
        if (live.count, live.value) != (run.inputs, mine.value()):
            run.differs = run.inputs


class _Summing:
    """Computes the digest of decisions like the server."""

    def __init__(self) -> None:
        self.digest = DigestOf()

    def passes(self, now: float) -> None:
        """Do nothing: times are inputs, not decisions."""

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        if effects:
            self.digest.saw(effects)
