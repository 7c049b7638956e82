"""Comparison of amounts with the maxima of quotas."""

from random import Random

from licorne_core.model.quotas import Quota, Tracker, excess, first_exceeded, within_max
from licorne_core.values.ids import QueuePath

TYPES = ("gpu", "memory", "vcore")


def some_amounts(random: Random) -> dict[str, int]:
    """Random amounts of random types, without zeros."""
    return {name: random.randint(1, 4) for name in TYPES if random.random() < 0.7}


def some_quota(random: Random) -> Quota:
    """A random quota, with or without a maximum, strict or not, and with or without promised amounts."""
    quota = Tracker("user", "ann", QueuePath("root"))
    quota.strict = random.random() < 0.5
    quota.max = None if random.random() < 0.2 else some_amounts(random)
    quota.allocated = some_amounts(random) if random.random() < 0.7 else {}
    quota.withheld = some_amounts(random) if random.random() < 0.3 else {}
    return quota


def test_both_comparisons_find_the_same_quota() -> None:
    """The quick comparison finds the same exceeded quota as the function that returns the excess."""
    random = Random(20261126)
    found = set()
    for _ in range(2000):
        quotas = [some_quota(random) for _ in range(3)]
        items = tuple(sorted(some_amounts(random).items()))
        over = [quota for quota in quotas if excess(quota, items)]
        first = first_exceeded(quotas, items)
        assert first is (over[0] if over else None)
        assert [quota for quota in quotas if not within_max(quota, items)] == over
        found.add(None if first is None else quotas.index(first))
    assert found == {None, 0, 1, 2}
