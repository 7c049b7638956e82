"""The pauses of copies: estimated in advance, bounded, and charged."""

import asyncio
import re
from collections.abc import Iterator

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]

from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.engine.copies import AT_ONCE, PART, REMEMBERED_SECONDS, USUAL_RATE, Copies, Pauses
from licorne_server.process.bounds import RmBounds
from licorne_server.process.fair import TimeSlices
from licorne_server.wire.errors import CallError, Stopped
from support.peers.shim import Shim, eventually

RM = RmId("rm")
WORST_WAIT = 0.05
"""The longest wait of an RM for another in seconds, as in `docs/performance.md`."""
GIB = 1024**3


class Machine:
    """A process with a given memory, and a clock that the test moves."""

    def __init__(self, resident: int) -> None:
        """Start without a copy."""
        self.resident = resident
        self.now = 0.0
        self._spent: Iterator[float] = iter(())

    def pauses(self, most: float) -> Pauses:
        """The pauses of this process."""
        return Pauses(most, lambda: self.resident, lambda: self.now, lambda: next(self._spent))

    def copied(self, pauses: Pauses, seconds: float) -> None:
        """Record a copy that took this number of seconds."""
        self._spent = iter((0.0, seconds))
        with pauses.measured():
            pass

    def takes(self, seconds: float) -> None:
        """Set the duration of the next copy."""
        self._spent = iter((0.0, seconds))


def test_the_pause_is_estimated_from_the_memory() -> None:
    """Before the first copy the pause is estimated by a usual rate for the memory."""
    machine = Machine(resident=2 * GIB)
    assert machine.pauses(0.05).reckoned() == pytest.approx(2 * GIB * USUAL_RATE)


def test_the_pause_is_estimated_from_earlier_copies() -> None:
    """The pause is estimated by the median of the last copies, so that outliers do not matter."""
    machine = Machine(resident=GIB)
    pauses = machine.pauses(1.0)
    for seconds in (0.1, 0.9, 0.12):
        machine.copied(pauses, seconds)
    machine.resident = 2 * GIB
    assert pauses.reckoned() == pytest.approx(2 * 0.1)


def test_one_slow_copy_does_not_forbid_the_next() -> None:
    """A single slow copy may be due to another process, and does not count."""
    machine = Machine(resident=GIB)
    pauses = machine.pauses(0.05)
    machine.copied(pauses, 10.0)
    assert pauses.problem() == ""


def test_slow_copies_are_forgotten_after_a_time() -> None:
    """Slow copies stop counting after a time, although no copy was made since."""
    machine = Machine(resident=GIB)
    pauses = machine.pauses(0.05)
    for _ in range(5):
        machine.copied(pauses, 1.0)
    assert pauses.problem()
    machine.now += REMEMBERED_SECONDS
    assert pauses.problem() == ""


def test_a_pause_beyond_the_bound_is_refused_with_its_cost() -> None:
    """The text has the pause, the memory, and the value of the option that would allow the plan."""
    machine = Machine(resident=2 * GIB)
    assert machine.pauses(0.05).problem() == (
        "everybody would wait for 80 ms meanwhile, as the process has 2147483648 bytes, and "
        "bounds.max_plan_pause is 0.05 s; 0.09 would allow the plan, at the cost of "
        "that wait"
    )
    assert machine.pauses(0.08).problem() == ""
    assert machine.pauses(0.0).problem() == ""


@pytest.mark.parametrize("resident", [GIB * 13 // 10, 2 * GIB, 3 * GIB + 1, 64 * GIB])
def test_the_value_in_a_refusal_allows_the_plan(resident: int) -> None:
    """The value in the refusal allows the plan, so that an operator need not try several."""
    machine = Machine(resident)
    named = re.search(r"([\d.]+) would allow", machine.pauses(0.05).problem())
    assert named
    assert machine.pauses(float(named[1])).problem() == ""


@pytest.mark.parametrize("resident", [GIB // 20, GIB // 4, GIB])
def test_plans_in_a_loop_take_a_bounded_part_of_the_time(resident: int) -> None:
    """In an hour plans take a hundredth of the time, plus the initial allowance, whatever their size."""
    machine = Machine(resident)
    pauses, most = machine.pauses(0.05), 0.05
    spent = 0.0
    while machine.now < 3600:
        machine.now += pauses.wait()
        seconds = resident * USUAL_RATE
        machine.copied(pauses, seconds)
        spent += seconds
    assert 0.9 * PART * 3600 <= spent <= PART * machine.now + most + resident * USUAL_RATE


def test_occasional_plans_do_not_wait() -> None:
    """Unused allowance accumulates up to a bound, so occasional plans do not wait."""
    machine = Machine(resident=GIB // 4)
    pauses = machine.pauses(0.05)
    for _ in range(4):
        assert pauses.wait() == 0
        machine.copied(pauses, 0.01)
    machine.copied(pauses, 0.01)
    assert pauses.wait() == pytest.approx(0.01 / PART)


def test_a_long_pause_delays_the_next_plan() -> None:
    """A plan with a long pause does not wait, but the next plan waits until that pause is paid for."""
    machine = Machine(resident=5 * GIB)
    pauses = machine.pauses(0.25)
    assert (pauses.problem(), pauses.wait()) == ("", 0.0)
    machine.copied(pauses, 0.2)
    assert pauses.wait() == pytest.approx(0.2 / PART)
    machine.now += 0.2 / PART
    assert pauses.wait() == pytest.approx(0)


def test_a_high_bound_gives_no_larger_allowance() -> None:
    """A high bound gives no larger initial allowance than a low one."""
    machine = Machine(resident=GIB // 4)
    high, low = machine.pauses(10.0), machine.pauses(AT_ONCE)
    for pauses in (high, low):
        for _ in range(5):
            machine.copied(pauses, 0.01)
    assert high.wait() == low.wait() == pytest.approx(0.01 / PART)


def test_the_default_bound_protects_other_rms() -> None:
    """By default no RM waits longer than 50 ms for a plan of another."""
    usual = RmBounds().plan_pause
    assert Machine(resident=GIB * 12 // 10).pauses(usual).problem() == ""
    assert Machine(resident=GIB * 13 // 10).pauses(usual).problem() != ""
    assert usual == AT_ONCE == WORST_WAIT


def copies_of(server: Server, pauses: Pauses) -> Copies:
    """Copies of a server's core."""
    time_slices = TimeSlices(lambda: False)
    return Copies(server.engine, server.scheduler, time_slices, lambda _: "", pauses)


async def test_a_plan_with_too_long_a_pause_is_refused(server: Server, shim: Shim) -> None:
    """No copy is made, and the error has a code for programs."""
    await shim.set_up()
    copies = copies_of(server, Machine(resident=2 * GIB).pauses(0.05))
    with pytest.raises(CallError, match="no copy is made for a plan: everybody would wait") as error:
        await copies.ask("me", RM, lambda *_: b"", lambda: None)
    assert error.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    [detail] = error.value.details
    assert isinstance(detail, ErrorInfo)
    assert detail.reason == "PLAN_PAUSE"
    assert copies.made == 0


async def test_a_plan_waits_until_earlier_pauses_are_paid_for(server: Server, shim: Shim) -> None:
    """A plan waits for the pauses of earlier plans, also those of other peers; stopping does not."""
    await shim.set_up()
    machine = Machine(resident=GIB)
    copies = copies_of(server, machine.pauses(0.05))
    machine.takes(3600.0)
    assert await copies.ask("me", RM, lambda *_: b"done", lambda: None) == b"done"
    other = asyncio.create_task(copies.ask("other", RM, lambda *_: b"done", lambda: None))
    for _ in range(100):
        await asyncio.sleep(0)
    assert copies.made == 1
    await copies.stop()
    with pytest.raises(Stopped):
        await other


async def test_a_plan_after_paid_pauses_does_not_wait(server: Server, shim: Shim) -> None:
    """A plan that is submitted after the pauses were paid for does not wait."""
    await shim.set_up()
    machine = Machine(resident=GIB)
    copies = copies_of(server, machine.pauses(0.05))
    for _ in range(2):
        machine.takes(0.05)
        assert await copies.ask("me", RM, lambda *_: b"done", lambda: None) == b"done"
        machine.now += 0.05 / PART
    assert copies.made == 2
    await eventually(lambda: copies.waiting == 0)
    await copies.stop()
