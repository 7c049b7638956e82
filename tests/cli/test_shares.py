"""Fairness with memory in the output of commands."""

from math import inf

from licorne.v1.state_pb2 import FairShare, HoursBudget
from licorne_cli.output.shares import decayed, hours_left


def test_decayed_usage_in_words() -> None:
    """The first column has the hours by which siblings are ordered; weight 0 is last, no memory is a dash."""
    share = FairShare(decayed={"vcore": 12_300.0, "gpu": 0.5}, share=1.25, weight=1.0, half_life=3600.0)
    assert decayed(share) == "1.25h gpu=0.5,vcore=12.3"
    assert decayed(FairShare(half_life=60.0)) == "0h"
    assert decayed(FairShare(share=inf, half_life=60.0)) == "last"
    assert decayed(FairShare()) == "-"


def test_remaining_hours_in_words() -> None:
    """Each budget has its remaining hours, its limit and the end of its window."""
    end = 1_704_067_200 * 10**9
    budgets = [
        HoursBudget(resource="memory", limit=2**36, left=2**35, resets_at=end),
        HoursBudget(resource="vcore", limit=4000.0, left=-500.0, resets_at=end),
    ]
    until = "2024-01-01T00:00:00.000Z"
    assert hours_left(budgets) == f"memory=32Gi of 64Gi until {until}; vcore=-0.5 of 4 until {until}"
    assert hours_left([]) == "-"
