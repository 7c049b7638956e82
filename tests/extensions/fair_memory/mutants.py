"""Defects of fairness with memory: usage has to decay exactly by its half-life."""

from mutants.defect import Defect
from mutants.operators import drop, swap

DECAYED = ("extensions/fair_memory/test_decayed",)
SHARES = ("extensions/fair_memory/test_fair_memory",)

FAIR_MEMORY = (
    Defect(
        "gains-without-decay",
        "Decayed.at",
        swap("- expm1 ( - _LN2 * lives ) * self . half_life / _LN2", "passed"),
        "usage that runs adds up as if nothing of it decayed",
        DECAYED,
    ),
    Defect(
        "looks-move-the-account",
        "Decayed.follow",
        swap("used != self . amounts", "True"),
        "the sums depend on how often the account was touched",
        DECAYED,
    ),
    Defect(
        "the-present-second-moves",
        "Decayed.at_step",
        swap("self . before if self . time > step else self . at ( step )", "self.values"),
        "a change within a second changes the order of that second",
        DECAYED,
    ),
    Defect(
        "weight-of-nothing-is-one",
        "weighted",
        swap("inf", "share"),
        "a queue of weight 0 goes before others",
        (*DECAYED, *SHARES),
    ),
    Defect(
        "order-stands-still",
        "FairMemory.begin",
        drop("ranks"),
        "the order does not follow the time",
        SHARES,
    ),
    Defect(
        "usage-goes-with-the-queue",
        "FairMemory.removed",
        swap("self . _detach (", "self._drop("),
        "a dynamic queue that comes back has used nothing",
        SHARES,
    ),
    Defect(
        "down-time-is-free",
        "FairMemory.restore",
        swap("account . time + BRIDGED", "account.time"),
        "what ran while the server was away counts for nothing",
        SHARES,
    ),
)
