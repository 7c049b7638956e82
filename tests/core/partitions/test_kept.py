"""The state retained of removed partitions, in case they are added again, is bounded."""

from licorne_core.messages.kept import MOST_KEPT, Kept
from licorne_core.partitions.kept import KeptOfPartitions
from licorne_core.values.ids import PartitionName


def kept(count: int) -> Kept:
    """The retained state of this number of queues."""
    return {"some": {f"root.q{number}": (number,) for number in range(count)}}


def test_the_retained_state_of_dropped_partitions_is_bounded() -> None:
    """Above the bound, the state of the partition that was removed first is dropped."""
    known = KeptOfPartitions({})
    for name, count in (("one", 4_000), ("two", 4_000), ("three", 4_000), ("none", 0)):
        known.keep(PartitionName(name), kept(count))
    assert list(known.by_name) == ["two", "three"]
    known.keep(PartitionName("huge"), kept(MOST_KEPT + 1))
    assert list(known.by_name) == ["huge"]
    assert len(known.by_name[PartitionName("huge")]["some"]) == MOST_KEPT


def test_the_state_kept_for_each_extension_is_bounded() -> None:
    """The bound applies to each extension separately, and empty state is not retained."""
    known = KeptOfPartitions({})
    each = dict.fromkeys(map(str, range(MOST_KEPT)), (1,))
    known.keep(PartitionName("one"), {"some": each, "other": {**each, "empty": ()}, "third": {"empty": ()}})
    assert {of: len(things) for of, things in known.by_name[PartitionName("one")].items()} == {
        "some": MOST_KEPT,
        "other": MOST_KEPT,
    }
