"""RMs: some check epochs, like sessions, and some do not, like plain stubs of si.v1."""

from random import Random
from typing import TYPE_CHECKING

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import MemberId
from support.coordination.loops import Time

if TYPE_CHECKING:
    from support.coordination.process import Process
    from support.coordination.world import World

ANSWER_SECONDS = 3.0
"""Seconds that an RM waits for an answer to its hello."""
SILENCE_SECONDS = 4.0
"""Seconds without a message after which an RM considers its stream broken."""
RETRY_SECONDS = 0.7


class Violation(AssertionError):
    """A forbidden event has happened."""


class Rm:
    """One RM and its stream. Messages of earlier streams may still arrive."""

    def __init__(self, world: "World", rm_id: str, *, checks_epochs: bool, load: float) -> None:
        """Create it unconnected; `load` is the CPU that it needs, in cores."""
        self.id = RmId(rm_id)
        self.load = load
        self.checks_epochs = checks_epochs
        self._world = world
        self._time: Time = world.time
        self._randomness: Random = world.randomness
        self._stream = 0
        self._named = 0
        self._is_served = False
        self._is_away = False
        self._heard = 0.0
        self._target = ""
        self.highest = 0
        """The highest epoch that it has seen."""
        self.owners: dict[int, MemberId] = {}
        """The owners whose effects were accepted, by their epochs."""
        self.last_effect = -1.0
        """Time of the last effect that was accepted."""
        self.used = 0
        """The amount of the budget that it uses."""
        self.wanted = 0
        """The additional amount that it would use."""
        self.uncharged = 0
        """The used amount that the store does not know."""
        self._epoch = 0

    def dial(self, address: str = "") -> None:
        """Open a new stream, to a random member unless an address is given."""
        self._stream += 1
        self._is_served = False
        self._heard = self._time.now
        self._named = self.highest if self.checks_epochs else 0
        self._target = address or self._randomness.choice(self._world.addresses)
        self._world.hello(self, self._target, self._stream, self._named)
        self._time.after(ANSWER_SECONDS, self._look, self._stream)

    def leave(self) -> None:
        """Unregister, and connect again later."""
        if self._is_served and not self._is_away:
            self._is_away = True
            self._stream += 1
            self._world.goodbye(self, self._target)
            self._time.after(self._randomness.uniform(0.5, 5.0), self._come_back)

    def restart(self) -> None:
        """Restart, without the last epoch."""
        self.highest = 0
        self.owners.clear()
        self.dial()

    def welcomed(self, stream: int, process: "Process", epoch: int) -> None:
        """Take note of the member that serves this RM."""
        if stream != self._stream:
            return
        if epoch < self._named:
            self._world.fail(f"{self.id}: named epoch {self._named}, and was given {epoch}")
        if self.checks_epochs and epoch < self.highest:
            self._later(stream)
            return
        self.highest = self._epoch = epoch
        self._is_served = True
        self._heard = self._time.now
        process.network.to_rm(process.replayed, self, stream, epoch, self.used)
        self._look(stream)

    def redirected(self, stream: int, address: str) -> None:
        """Connect to the member that serves this RM."""
        if stream == self._stream:
            self.dial(address)

    def refused(self, stream: int) -> None:
        """Connect again after a pause."""
        if stream == self._stream:
            self._later(stream)

    def cut(self, stream: int) -> None:
        """Connect again, because the member has ended the stream."""
        if stream == self._stream:
            self.dial(self._target)

    def affected(self, stream: int, process: "Process", run: MemberId, epoch: int, amount: int) -> None:
        """Process an effect of a member. With epochs the order of streams does not matter."""
        if self.checks_epochs:
            if epoch < self.highest:
                return
            self.highest = epoch
            owner = self.owners.setdefault(epoch, run)
            if owner != run:
                self._world.fail(f"{self.id}: two owners have epoch {epoch}: {owner} and {run}")
        elif stream != self._stream:
            return
        self._heard = self.last_effect = self._time.now
        if self._world.budget.limit and (stream, epoch) == (self._stream, self._epoch):
            self._spend(process, amount)

    def _spend(self, process: "Process", amount: int) -> None:
        """Start the decided work; sometimes end some of it, or change the wanted amount."""
        if amount:
            self._world.budget.accepted(self, amount, process)
        draw = self._randomness.random()
        if draw < 0.2:
            self.wanted = self._randomness.choice((0, 1, 3, 8, 30))
        elif draw < 0.4 and self.used:
            ended = self._randomness.randint(1, self.used)
            self.used -= ended
            self.uncharged = max(0, min(self.uncharged, self.used))
            process.network.to_rm(process.freed, self, self._stream, self._epoch, ended)

    def _later(self, stream: int) -> None:
        self._time.after(self._randomness.uniform(0.1, RETRY_SECONDS), self._again, stream)

    def _again(self, stream: int) -> None:
        if stream == self._stream:
            self.dial()

    def _look(self, stream: int) -> None:
        """Connect again if the member has been silent for too long."""
        if stream != self._stream:
            return
        patience = SILENCE_SECONDS if self._is_served else ANSWER_SECONDS
        left = self._heard + patience - self._time.now
        if left > 1e-6:
            self._time.after(left, self._look, stream)
        else:
            self.dial()

    def _come_back(self) -> None:
        self._is_away = False
        self.dial()
