"""The load of RMs that members publish and balance by."""

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.joining import MEMORY_SECONDS, Load

A, B = RmId("a"), RmId("b")


class Machine:
    """A process whose clocks and work a test sets."""

    def __init__(self) -> None:
        """Start without work."""
        self.time = self.cpu = 0.0
        self.worked: dict[RmId, float] = {}
        self.load = Load(lambda: self.worked, lambda: self.cpu, lambda: self.time)

    def run(self, seconds: float, **worked: float) -> dict[RmId, float]:
        """Keep one core busy half of the time, with this work of the engine for each RM; return the loads."""
        self.time += seconds
        self.cpu += seconds / 2
        for name, spent in worked.items():
            rm_id = RmId(name)
            self.worked[rm_id] = self.worked.get(rm_id, 0.0) + spent
        return dict(self.load())


def test_the_cpu_of_the_process_is_divided_by_work() -> None:
    """The load of an RM is proportional to its work, and all loads are the CPU of the process."""
    machine = Machine()
    found = machine.run(100 * MEMORY_SECONDS, a=30.0, b=10.0)
    assert abs(found[A] - 0.375) < 1e-9
    assert abs(found[B] - 0.125) < 1e-9


def test_a_burst_counts_little_and_is_forgotten() -> None:
    """A second of work changes the mean by a small part; a removed RM has no load."""
    machine = Machine()
    machine.run(100 * MEMORY_SECONDS, a=1.0)
    burst = machine.run(1.0, a=0.1, b=0.1)
    assert burst[B] < 0.01 < burst[A]
    del machine.worked[B]
    assert B not in machine.run(1.0, a=0.1)


def test_a_machine_without_work_has_no_load() -> None:
    """An idle RM has the load 0, and two measurements at one moment are equal."""
    machine = Machine()
    assert machine.run(10.0, a=0.0) == {A: 0.0}
    assert machine.run(0.0) == {A: 0.0}
