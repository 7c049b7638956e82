"""Jobs: large commands carried out in steps, so that no other RM waits for one (DESIGN § 2).

A slice is a number of steps, bounded by their cost. The books are consistent after each step.
Between two slices nothing is scheduled for the RM, no deadline of it comes, and no other command of
it is handled but answers to checks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from licorne_core.messages.commands import (
    RegisterRm,
    SetQueueStopped,
    StopApplication,
    UpdateConfiguration,
)
from licorne_core.messages.effects import Effect, Unfinished
from licorne_core.values.ids import RmId

LargeCommand = RegisterRm | UpdateConfiguration | SetQueueStopped | StopApplication


class Job(ABC):
    """A started command, and its progress."""

    def __init__(self, command: LargeCommand, slice_size: int, now: float) -> None:
        """Start a job. `slice_size` is the cost of the steps of a slice."""
        self.command = command
        self.now = now
        """The time of the present slice, in unix seconds."""
        self.effects: list[Effect] = []
        """Effects of the present slice."""
        self._slice_size = slice_size
        self._rest = self.steps()

    @abstractmethod
    def steps(self) -> Iterator[int]:
        """Do everything; yield the cost of each step, where a queue is 1."""

    def go_on(self, now: float) -> bool:
        """Do one slice; True if it was the last."""
        self.now = now
        self.effects = []
        left = self._slice_size
        for cost in self._rest:
            left -= cost
            if left <= 0:
                return False
        return True


class Jobs:
    """The commands of all RMs that have begun and not ended, at most one of each RM."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        """Start empty."""
        self._begun: dict[RmId, Job] = {}

    def find(self, command: LargeCommand) -> Job | None:
        """Return the job of the command, if it has begun."""
        job = self._begun.get(command.rm_id)
        return job if job is not None and job.command is command else None

    def carry_on(self, job: Job, now: float) -> list[Effect]:
        """Do one slice of the job; return its effects, and the rest if there is one."""
        rm_id = job.command.rm_id
        self.forget(rm_id)
        if job.go_on(now):
            return job.effects
        self._begun[rm_id] = job
        return [*job.effects, Unfinished(rm_id=rm_id, rest=job.command)]

    def forget(self, rm_id: RmId) -> None:
        """Drop the job of the RM."""
        self._begun.pop(rm_id, None)
