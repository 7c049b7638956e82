"""What searches keep from one to the next never changes what they find."""

from random import Random

import pytest

from licorne_core.preemption import PreemptionSearch
from support.preemption.asking import ENDLESS
from support.preemption.building import build
from support.preemption.changing import Changing
from support.preemption.drawing import ASK, NOW, Drawing


@pytest.mark.worlds(one_in=2)
@pytest.mark.parametrize("glance", [0, 1, 32])
def test_an_old_search_finds_what_a_new_one_finds(part: range, glance: int) -> None:
    """Whatever comes, goes, grows or is told to stop: every answer is that of a fresh search."""
    plans = 0
    for seed in part:
        built = build(Drawing(seed, 14).cluster(), glance)
        app, request = built.request(ASK)
        changing = Changing(built, Random(seed))
        for _ in range(12):
            changing.change()
            fresh = PreemptionSearch(
                built.tree.root, built.nodes, built.applications, built.reserved, built.losses
            )
            for most in (1, 3):
                wanted = fresh.find(app, request, NOW, most=most, steps=ENDLESS)
                found = built.search.find(app, request, NOW, most=most, steps=ENDLESS)
                assert found == wanted, f"seed {seed}"
                plans += isinstance(wanted, list)
    assert plans > 0
