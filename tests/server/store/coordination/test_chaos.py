"""Faults of members, their store, and the lines between: every RM is served afterwards."""

import pytest

from soak.chaos import shake

pytestmark = [pytest.mark.slow, pytest.mark.needs("etcd")]


# Faults last for seconds each, and members wait for leases to end.
@pytest.mark.timeout(1200)
async def test_members_survive_faults() -> None:
    """Three members and a real etcd, four RMs with clients and one with plain stubs, ten cycles of kills,
    stops, and cut and held lines: no allocation twice, no node overfull, no epoch falls, equal books."""
    told: list[int] = []
    await shake(3, 10, told.append)
    assert told == list(range(1, 11))
