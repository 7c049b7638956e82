"""Measures of RMs, recorded and read."""

import pytest

from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsMade,
    AllocationsRejected,
    ConfigurationRefused,
    ConfigurationUpdated,
)
from licorne_core.values.asks import Allocation, Ask, AskClass
from licorne_core.values.counters import Counters, Histogram
from licorne_core.values.errors import Refusal
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.process.bounds import OutboxBounds
from licorne_server.rms.outbox import Outbox
from licorne_server.telemetry.measures import KEPT, OLDER, WAITS, WORK, CheckTimes, RmMeasures
from licorne_server.wire.responses import Kind, Payload

RM = RmId("rm1")
HERE = PartitionName("[rm1]default")


def allocation(key: str, read_time: float, on_node: str | None = None) -> Allocation:
    """An allocation whose ask was read at a time, or that its RM placed itself."""
    node = None if on_node is None else NodeId(on_node)
    size = AskClass.of({"vcore": 1})
    asked = Ask(AllocationKey(key), AppId("a"), size, node_id=node, read_time=read_time)
    return Allocation(asked, NodeId("n1"), 0.0, 0.0)


def made(*allocations: Allocation) -> AllocationsMade:
    """Record allocations sent to the RM."""
    return AllocationsMade(rm_id=RM, partition=HERE, allocations=allocations)


def test_a_bucket_includes_its_bound() -> None:
    """A bucket includes its upper bound, and the last bucket has all values."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    histogram.observe(1.5, 3)
    assert histogram.cumulative() == [2, 7, 8]
    assert (histogram.count, histogram.total) == (8, 18.5)


def test_a_coarser_histogram_has_the_same_values() -> None:
    """With fewer bounds the counts up to them, and the total, are unchanged."""
    fine = Histogram(WORK)
    for value in (0.00005, 0.0003, 0.04, 0.1, 7.0, 5000.0):
        fine.observe(value)
    coarse = fine.coarser(OLDER)
    counts = dict(zip((*fine.bounds, "all"), fine.cumulative(), strict=True))
    assert coarse.cumulative() == [counts[bound] for bound in (*OLDER, "all")]
    assert coarse.total == fine.total


def test_histograms_are_added() -> None:
    """The sum of two histograms has the values of both."""
    one, other = Histogram(WAITS), Histogram(WAITS)
    one.observe(0.1)
    other.observe(2.0, 2)
    one.add(other)
    assert (one.count, one.total, other.count) == (3, 4.1, 2)


def test_the_time_of_an_allocation_begins_when_its_ask_is_read() -> None:
    """The time of an allocation begins when its ask was read; allocations placed by the RM do not count."""
    measures = RmMeasures()
    runs = [allocation("a", 10.0), allocation("b", 10.0), allocation("c", 12.0)]
    runs += [allocation("d", 0.0), allocation("e", 11.0, on_node="n1")]
    measures.allocated(runs, 13.0)
    assert (measures.allocation.count, measures.allocation.total) == (3, 7.0)
    measures.allocated([allocation("f", 14.0)], 13.5)
    assert (measures.allocation.count, measures.allocation.total) == (4, 7.0)


def test_a_turn_is_divided_by_work() -> None:
    """Tries and searches get shares of a turn by their work; a new registration starts over."""
    measures = RmMeasures()
    measures.turned(HERE, Counters(asks_tried=2, work=8, search_work=4), 0.8)
    measures.turned(HERE, Counters(asks_tried=2, work=8, search_work=4), 0.1)
    measures.turned(HERE, Counters(asks_tried=3, work=9, search_work=4), 0.5)
    assert measures.turn.count == 3
    assert measures.turn.total == pytest.approx(1.4)
    assert measures.trying.count == 3
    assert measures.trying.total == pytest.approx(0.9)
    assert measures.searching.count == 1
    assert measures.searching.total == pytest.approx(0.4)
    measures.renew()
    measures.turned(HERE, Counters(asks_tried=1, work=1), 0.25)
    assert measures.trying.count == 4
    assert measures.trying.total == pytest.approx(1.15)


def test_rejections_are_counted_by_reason() -> None:
    """Rejected items are counted by kind and code, whatever their texts."""
    measures = RmMeasures()
    for code in (Refusal.UNKNOWN_NODE, Refusal.UNKNOWN_NODE, Refusal.TOO_MANY):
        refused = AllocationRejection(key=AllocationKey("k"), app_id=AppId("a"), reason="any", code=code)
        measures.told(AllocationsRejected(rm_id=RM, rejections=[refused]))
    assert measures.rejections == {
        ("allocation", Refusal.UNKNOWN_NODE): 2,
        ("allocation", Refusal.TOO_MANY): 1,
    }


def test_the_last_configuration_determines_its_refusal() -> None:
    """A refusal counts until a configuration is accepted, or the RM registers again."""
    measures = RmMeasures()
    refused = ConfigurationRefused(rm_id=RM, reason="no")
    for effect, is_refused in (
        (ConfigurationUpdated(rm_id=RM, changed=True), False),
        (refused, True),
        (ConfigurationUpdated(rm_id=RM, changed=False), False),
        (refused, True),
    ):
        measures.told(effect)
        assert measures.is_refused is is_refused
    assert measures.configurations == {"changed": 1, "unchanged": 1, "refused": 2}
    measures.renew()
    assert not measures.is_refused


def test_the_time_of_an_answer_begins_when_its_check_is_written() -> None:
    """The time of an answer begins when its check was written; a repeated message changes nothing."""
    times = CheckTimes()
    times.written(3, 10.0)
    times.written(5, 12.0)
    times.written(5, 20.0)
    assert times.answered([1, 3, 4, 9], 13.0) == [(3.0, 2), (1.0, 1)]
    assert times.answered([], 13.0) == []


def test_a_new_registration_numbers_checks_from_the_start() -> None:
    """The first check after a new registration is not mistaken for a repeated one."""
    measures = RmMeasures()
    measures.checks.written(9, 10.0)
    measures.renew()
    measures.checks.written(1, 20.0)
    measures.answered([1], 22.0)
    assert (measures.answers.count, measures.answers.total) == (1, 2.0)


def test_unanswered_checks_are_forgotten() -> None:
    """A bounded number of messages with unanswered checks is stored, the latest ones."""
    times = CheckTimes()
    for check in range(1, 5 * KEPT):
        times.written(check, float(check))
    assert len(times._written) <= 2 * KEPT
    last = 5 * KEPT - 1
    assert times.answered([last], last + 1.5) == [(1.5, 1)]


def test_the_age_of_an_outbox() -> None:
    """The age of an outbox is that of its oldest unwritten message."""
    now = 100.0
    waited = Histogram(WAITS)
    outbox = Outbox(lambda _: None, OutboxBounds(), lambda: now, waited)
    assert outbox.age == 0.0
    outbox.put(Payload(Kind.NODES, "nodes", b"n", 1))
    now = 103.0
    outbox.put(Payload(Kind.CHECKS, "checks", b"c", 1))
    outbox.put(Payload(Kind.CHECKS, "checks", b"c", 1))
    now = 105.0
    assert outbox.age == 5.0
    for _ in range(2):
        batch = outbox.peek(tuple(Kind))
        assert batch is not None
        outbox.sent(batch)
    assert (waited.count, waited.total, outbox.age) == (2, 7.0, 0.0)
    outbox.put(Payload(Kind.NODES, "nodes", b"n", 1))
    outbox.clear()
    assert outbox.age == 0.0
