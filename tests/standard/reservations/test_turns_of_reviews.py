"""A review covers a bounded number of reservations, in turn (spec § 8.6)."""

from math import ceil
from random import Random

import pytest

from licorne_core.standard.reservations import review
from licorne_core.values.asks import Reservation
from support.core.builders import (
    MANY_RESERVED,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
)
from support.core.driver import Driver

MOST = 2
NODES = 12
SECONDS = 40


def kept(core: Driver) -> dict[str, Reservation]:
    """The reservations, by the keys of their asks."""
    partition = core.partition
    return {one.key: one for one in partition.wakeups.reserved if one.node_id is not None}


@pytest.mark.parametrize("seed", range(8))
def test_every_reservation_is_reviewed_in_turn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reservation is reviewed before the number of reviews exceeds one round of all reservations.

    A reviewed reservation yields, as its queue has no guarantee. Reviewed asks are more often removed than
    others, so that the reservations behind them move up.
    """
    monkeypatch.setattr(review, "MOST_REVIEWED", MOST)
    rng = Random(seed)
    core = Driver()
    core.do(register(config("[{name: base}, {name: a}]", properties=MANY_RESERVED)))
    core.do(nodes(*(node(f"n{number}", vcore=10) for number in range(NODES))))
    core.do(apps(app("base", "root.base"), app("a", "root.a")))
    core.do(asks(*(ask("base", f"b{n}", vcore=4, on_node=f"n{n}") for n in range(NODES))))
    turns: dict[Reservation, int] = {}
    reviewed = 0
    for second in range(SECONDS):
        core.do(asks(ask("a", f"k{second}a", vcore=8), ask("a", f"k{second}b", vcore=8)))
        core.wait(1)
        there = kept(core)
        for reservation in there.values():
            if reservation.gives_way:
                reviewed += turns.pop(reservation, None) is not None
                continue
            left = turns.get(reservation, ceil(len(there) / MOST) + 1) - 1
            assert left > 0, f"{reservation} is passed over, of {len(there)}"
            turns[reservation] = left
        ends = [key for key, one in there.items() if rng.random() < (0.5 if one.gives_way else 0.1)]
        core.do(releases(*(release("a", key) for key in ends)))
    assert reviewed > SECONDS
