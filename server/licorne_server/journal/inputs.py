"""The core as the engine sees it while a journal is written."""

from licorne_core.messages.commands import Command, OfNoRm
from licorne_core.messages.effects import Effect, TickFailed, Unfinished
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.journal.codec import entry
from licorne_server.journal.digest import DigestOf
from licorne_server.journal.records import Digest
from licorne_server.journal.table import Again
from licorne_server.journal.writer import Writer

DIGEST_SECONDS = 1.0
"""Seconds after which the sum of all decisions is noted again."""


class JournaledCore:
    """A scheduler whose commands and times are noted before it gets them."""

    def __init__(self, scheduler: Scheduler, writer: Writer) -> None:
        """Note the commands of a scheduler that has had none."""
        self._scheduler = scheduler
        self._writer = writer
        self._state = writer.state
        self._digest = DigestOf()
        self._summed = 0.0
        # Commands of which a rest is to come, by their RMs.
        self._begun: dict[RmId, Command] = {}

    @property
    def last_turn(self) -> Partition | None:
        """See `Scheduler`."""
        return self._scheduler.last_turn

    def next_deadline(self) -> float | None:
        """See `Scheduler`."""
        return self._scheduler.next_deadline()

    def handle(self, command: Command, now: float) -> list[Effect]:
        """See `Scheduler`; the journal fails by itself, and never fails a command."""
        if self._state.problem:
            return self._scheduler.handle(command, now)
        self._note(command, now)
        try:
            effects = self._scheduler.handle(command, now)
        except TickFailed as failure:
            self._digest.saw(failure.effects)
            raise
        if effects:
            self._digest.saw(effects)
            last = effects[-1]
            if isinstance(last, Unfinished):
                self._begun[last.rm_id] = last.rest
        return effects

    def note_digest(self, now: float) -> None:
        """Note the sum of all decisions so far."""
        self._summed = now
        self._writer.put(entry(now, Digest(self._state.inputs, self._digest.value())))

    def _note(self, command: Command, now: float) -> None:
        if not 0 <= now - self._summed < DIGEST_SECONDS:
            self.note_digest(now)
        what: Command | Again = command
        if self._begun and not isinstance(command, OfNoRm):
            rm_id = command.rm_id
            if self._begun.get(rm_id) is command:
                del self._begun[rm_id]
                what = Again(rm_id)
        try:
            self._writer.put(entry(now, what))
        except Exception as error:
            self._writer.stop(f"a {type(command).__name__} cannot be written: {error}")
        self._state.inputs += 1
