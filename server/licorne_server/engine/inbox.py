"""The queue of commands for the core (DESIGN § 2).

However many commands an RM sends, the next command of another RM waits for at most one command of each RM.
The commands of one RM are handled in the order of arrival. Answers to checks have a deadline, and are handled
before all other commands.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from licorne_core.messages.commands import AnswerPredicates, AnswerPreemptions, Command, OfNoRm
from licorne_core.messages.effects import Effect
from licorne_core.values.ids import RmId
from licorne_server.process.fair import RoundRobin

MOST_ANSWERS = 16
"""Maximum number of answers of one RM that are handled before the other commands of a round."""


class Entry(NamedTuple):
    """A queued command, or the remainder of a command that has begun."""

    command: Command
    future: asyncio.Future[list[Effect]] | None = None
    """Receives the effects, for a caller that waits."""
    is_current: Callable[[], bool] | None = None
    """True if the command is still valid; None for always."""
    effects: Sequence[Effect] = ()
    """The effects so far, if this entry is the remainder of a command."""


class Inbox:
    """Queues by RM: one for answers to checks, one for all other commands."""

    __slots__ = ("answers", "commands")

    def __init__(self) -> None:
        """Start with empty queues."""
        self.answers: RoundRobin[RmId, Entry] = RoundRobin()
        self.commands: RoundRobin[RmId | None, Entry] = RoundRobin()

    @property
    def size(self) -> int:
        """Number of queued commands, answers included."""
        return self.answers.size + self.commands.size

    def put(self, entry: Entry) -> None:
        """Queue a command after the others of its RM, or an answer in the queue of its RM's answers."""
        command = entry.command
        if isinstance(command, AnswerPredicates | AnswerPreemptions):
            self.answers.put(command.rm_id, entry)
        else:
            self.commands.put(_rm_of(command), entry)

    def put_first(self, entry: Entry) -> None:
        """Queue the remainder of a command before all other commands of its RM."""
        self.commands.put_first(_rm_of(entry.command), entry)

    def take_answers(self) -> list[Entry]:
        """Remove and return the first answers of each RM, at most `MOST_ANSWERS` per RM."""
        taken: list[Entry] = []
        for _ in range(MOST_ANSWERS):
            taken += [self.answers.take() for _ in range(self.answers.keys)]
        return taken

    def take_all(self) -> list[Entry]:
        """Empty the queues; returns their entries."""
        return [*self.answers.clear(), *self.commands.clear()]


def _rm_of(command: Command) -> RmId | None:
    return None if isinstance(command, OfNoRm) else command.rm_id
