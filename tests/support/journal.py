"""The simplest replay of a journal: every input is fed to a new core, and every digest compared."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from licorne_core.messages.commands import Options
from licorne_core.messages.effects import TickFailed
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import LicorneError
from licorne_server.engine.journal.digest import DigestOf
from licorne_server.engine.journal.records import Digest, Header, Input, Record, Torn


@dataclass(slots=True)
class Replay:
    """The results of a replay."""

    runs: int = 0
    inputs: int = 0
    digests: int = 0
    differing: list[int] = field(default_factory=list)
    """The numbers of inputs after which the digest differs."""
    torn: list[Torn] = field(default_factory=list)
    scheduler: Scheduler = field(default_factory=Scheduler)
    """The core at the end of the last run."""


def scheduler_of(options: Options) -> Scheduler:
    """A core with these options."""
    return Scheduler(
        default_config=options.default_config,
        reservations=options.reservations,
        ask_backoff=options.ask_backoff,
        tuning=options.tuning,
        rm_caps=options.rm_caps,
    )


def replayed(records: Iterable[Record]) -> Replay:
    """Replay all runs of a journal."""
    replay = Replay()
    digest, count = DigestOf(), 0
    for record in records:
        match record:
            case Header():
                replay.runs += 1
                replay.scheduler, digest, count = scheduler_of(record.options), DigestOf(), 0
            case Input():
                replay.inputs += 1
                count += 1
                try:
                    digest.saw(replay.scheduler.handle(record.command, record.now))
                except TickFailed as failure:
                    digest.saw(failure.effects)
                except LicorneError:
                    pass
            case Digest():
                replay.digests += 1
                if (count, digest.value()) != (record.count, record.value):
                    replay.differing.append(count)
            case Torn():
                replay.torn.append(record)
    return replay
