"""One world: two to four members, their store, and RMs, with one true time; and its invariants."""

from random import Random

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.lease import RATE_ERROR, stop_after
from licorne_server.store.coordination.store import MemberId, Snapshot
from licorne_server.store.documents.documents import Document
from support.coordination.loops import DriftingClock, Time
from support.coordination.network import Weather
from support.coordination.process import Process
from support.coordination.rms import Rm, Violation
from support.coordination.spending import KEY, Budget
from support.coordination.store import StoreModel

LEASE = 6.0
SETTLED = 22.0
"""Seconds after the last fault within which each RM must be served."""
WINDOW = 3.0
"""Seconds within which each served RM must receive an effect."""
DECIDING = 0.9
"""The maximum of seconds between two decisions of a process."""


class World:
    """A random world."""

    def __init__(self, seed: int) -> None:
        """Start all members, RMs and the store."""
        self.randomness = draw = Random(seed)
        self.time = Time()
        self.weather = Weather(
            lost=draw.choice((0.0, 0.02, 0.1)),
            late=draw.choice((0.0, 0.02, 0.1, 0.4)),
            slow=draw.choice((0.0, 0.0, 0.7)),
            forgotten=draw.choice((0.0, 0.3, 1.0)),
            old=draw.choice((0.0, 0.0, 0.3)),
        )
        self._luck = draw.choice((0.0, 0.01, 0.05))
        self.store = StoreModel(self.time, draw, LEASE, _rate(draw))
        self.addresses = [f"m{number}:1" for number in range(draw.choice((2, 3, 3, 4)))]
        self._versions = [draw.choice(((1,), (1,), (1, 2))) for _ in self.addresses]
        self.processes: dict[str, Process] = {}
        """The latest process of each member, by its address."""
        self._all: list[Process] = []
        self.rms = [
            Rm(self, f"rm{number}", checks_epochs=number % 2 == 0, load=draw.uniform(0.0, 0.4))
            for number in range(draw.choice((2, 3, 4)))
        ]
        self.budget = Budget(self, draw.choice((0,) * 7 + (20,)))
        self.store.on_document = self._written
        self.script: list[str] = []
        """The events of the world as text."""
        self.violation: Violation | None = None
        # The epochs that were granted, by RM, and their owners.
        self._granted: dict[tuple[RmId, int], MemberId] = {}
        # Runs whose lease was removed, and the time from which the checks apply to them again.
        self._condemned: dict[MemberId, float] = {}
        for address in self.addresses:
            self.start(address)
        for rm in self.rms:
            self.time.after(draw.uniform(0.0, 2.0), rm.dial)

    def start(self, address: str) -> None:
        """Start the process of a member."""
        draw = self.randomness
        clock = DriftingClock(self.time, _rate(draw), draw.uniform(0.0, 1e4), draw.uniform(-300.0, 300.0))
        process = Process(self, address, clock, self._versions[self.addresses.index(address)])
        self.processes[address] = process
        self._all.append(process)
        self._decide(process)

    def living(self) -> list[Process]:
        """Processes that are not dead."""
        return [process for process in self.processes.values() if not process.is_dead]

    def condemn(self, runs: list[MemberId]) -> None:
        """Exempt runs whose lease was removed from outside, until they must have noticed or stopped."""
        until = self.time.now + stop_after(LEASE) / (1 - RATE_ERROR)
        for run in runs:
            self._condemned[run] = until

    def wipe(self, kept: Snapshot) -> None:
        """Empty the store, or replace its contents by an older copy."""
        self.condemn([process.run for process in self.living()])
        self.store.wipe(kept)
        if KEY in kept.documents:
            self.budget.written(kept.documents[KEY])

    def pause(self, process: Process) -> None:
        """Pause a process for some time."""
        seconds = self.randomness.choice((0.5, 3.0, 8.0, 15.0))
        is_suspended = self.randomness.random() < 0.3
        self.script.append(f"{self.time.now:.3f} {process.address} is paused for {seconds} s {is_suspended}")
        process.loop.pause(is_suspended=is_suspended)
        self.time.after(seconds, self.resume, process)

    def resume(self, process: Process) -> None:
        """Resume the process."""
        if not process.is_dead:
            process.loop.resume()

    def is_unlucky(self) -> bool:
        """True if a process is to be paused between its check and its message."""
        return self.randomness.random() < self._luck

    def hello(self, rm: Rm, address: str, stream: int, named: int) -> None:
        """Open a stream of an RM. A dead address mostly fails at once, and a hello may arrive twice."""
        process = self.processes[address]
        is_known = process.is_dead or process.network.is_cut_from_rms
        if is_known and self.randomness.random() < 0.8:
            self.time.after(0.1, rm.refused, stream)
            return
        process.network.to_rm(process.hello, rm, stream, named)
        if self.randomness.random() < self.weather.lost:
            self.time.after(self.randomness.uniform(0.0, 9.0), process.hello, rm, stream, named)

    def goodbye(self, rm: Rm, address: str) -> None:
        """Unregister an RM."""
        process = self.processes[address]
        process.network.to_rm(process.goodbye, rm)

    def fail(self, what: str) -> None:
        """Record a violation, unless there was one before."""
        self.violation = self.violation or Violation(f"{self.time.now:.3f} s: {what}")

    def note_grant(self, process: Process, rm: Rm, epoch: int) -> None:
        """Check that the epoch was granted to this run of a member only."""
        owner = self._granted.setdefault((rm.id, epoch), process.run)
        if owner != process.run:
            self.fail(f"{rm.id}: epoch {epoch} was granted to {owner} and to {process.run}")
        if process.member.may_decide():
            self.check_decision(process, rm)

    def check_decision(self, process: Process, rm: Rm) -> None:
        """Check that no other process may decide for the RM at the same time."""
        if self.is_condemned(process):
            return
        for other in self.living():
            if other is process or rm.id not in other.books or self.is_condemned(other):
                continue
            if other.member.may_decide():
                names = process.address, other.address
                self.fail(f"{rm.id}: {' and '.join(names)} may decide for it at the same time")

    def check_move(self, process: Process, rm: Rm) -> None:
        """Check that only one RM at a time moves for balance."""
        if self.is_condemned(process):
            return
        for other in self.living():
            counts = other is not process and other.is_balancing and not self.is_condemned(other)
            if counts and other.member.may_decide():
                self.fail(f"{rm.id} moves for balance, and so does an RM of another member")

    def end_faults(self) -> None:
        """End all faults."""
        self.weather.clear_up()
        self._luck = 0.0
        if self.store.is_down:
            self.store.restart()
        for address in self.addresses:
            self.store.drain(address, draining=False)
        for process in self.living():
            process.network.is_cut_from_store = process.network.is_cut_from_rms = False
            self.resume(process)
        for address, process in self.processes.items():
            if process.is_dead:
                self.start(address)

    def check_served(self) -> None:
        """Check that each RM is served some time after the last fault."""
        self.time.run(self.time.now + SETTLED)
        begin = self.time.now
        self.time.run(begin + WINDOW)
        for rm in self.rms:
            if rm.last_effect < begin:
                self.fail(f"{rm.id} is not served {SETTLED:g} s after the last fault")
        for process in self._all:
            for error in process.loop.errors:
                self.fail(f"{process.address}: {error}")

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.loop.end()

    def _written(self, key: str, document: Document) -> None:
        if key == KEY:
            self.budget.written(document)

    def is_condemned(self, process: Process) -> bool:
        """True if its lease was removed, and the process may not have noticed yet."""
        return self.time.now < self._condemned.get(process.run, 0.0)

    def _decide(self, process: Process) -> None:
        if not process.is_dead:
            if process.books and not process.loop.is_paused:
                process.loop.post(process.decide)
            self.time.after(self.randomness.uniform(0.2, DECIDING), self._decide, process)


def _rate(draw: Random) -> float:
    """The rate of a clock."""
    return draw.choice((1 - RATE_ERROR, 1.0, 1 + RATE_ERROR))
