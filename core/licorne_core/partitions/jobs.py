"""Jobs: large work done in steps, so that no other RM waits for it (DESIGN § 2).

A slice is a number of steps, bounded by their cost. The books are consistent after each step.
Between two slices of a command nothing is scheduled for the RM, no deadline of it fires, and no
other command of it is handled except answers to checks. Between two slices of the work of a deadline
nothing is scheduled in the partition.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from licorne_core.messages.commands import LargeCommand
from licorne_core.messages.effects import Effect, Unfinished
from licorne_core.values.ids import RmId


class Slice:
    """Budget of one slice: the cost of the steps that may still be executed."""

    __slots__ = ("left",)

    def __init__(self, most: int) -> None:
        """Start with a budget of `most`."""
        self.left = most

    @property
    def is_spent(self) -> bool:
        """True if the budget is used up."""
        return self.left <= 0

    def end(self) -> None:
        """End the slice, so that no further step is executed in it."""
        self.left = 0

    def spend(self, steps: Iterator[int]) -> bool:
        """Execute steps, which yield their costs; True if all were executed."""
        for cost in steps:
            self.left -= cost
            if self.is_spent:
                return False
        return True


class Job(ABC):
    """Work in steps, and its progress."""

    def __init__(self, now: float) -> None:
        """Create the job without executing any step."""
        self.now = now
        """The time of the current slice, in unix seconds."""
        self._rest = self.steps()

    @abstractmethod
    def steps(self) -> Iterator[int]:
        """Execute everything; yield the cost of each step, in units of one queue."""

    def go_on(self, now: float, slice_: Slice) -> bool:
        """Execute one slice; True if it was the last."""
        self.now = now
        return slice_.spend(self._rest)


class CommandJob(Job):
    """A large command."""

    def __init__(self, command: LargeCommand, slice_size: int, now: float) -> None:
        """Begin a command; `slice_size` is the cost of the steps of a slice."""
        self.command = command
        self.slice_size = slice_size
        self.effects: list[Effect] = []
        """Effects of the current slice."""
        super().__init__(now)


class Jobs:
    """The unfinished commands of all RMs, at most one of each RM."""

    def __init__(self) -> None:
        """Start without jobs."""
        self._begun: dict[RmId, CommandJob] = {}

    def find(self, command: LargeCommand) -> CommandJob | None:
        """Return the job of the command, if it has begun."""
        job = self._begun.get(command.rm_id)
        return job if job is not None and job.command is command else None

    def carry_on(self, job: CommandJob, now: float) -> list[Effect]:
        """Execute one slice of the job; return its effects, with `Unfinished` last if the job continues."""
        rm_id = job.command.rm_id
        self.forget(rm_id)
        job.effects = []
        if job.go_on(now, Slice(job.slice_size)):
            return job.effects
        self._begun[rm_id] = job
        return [*job.effects, Unfinished(rm_id=rm_id, rest=job.command)]

    def forget(self, rm_id: RmId) -> None:
        """Drop the job of the RM."""
        self._begun.pop(rm_id, None)
