"""Seeded defects in fair shares by past usage: the decay of usage, and the order of queues."""

from mutants.defect import Defect
from mutants.operators import drop, swap

DECAYED = ("extensions/fair_memory/test_decayed",)
SHARES = ("extensions/fair_memory/test_fair_memory",)

FAIR_MEMORY = (
    Defect(
        "gains-without-decay",
        "Decayed.at",
        swap("- expm1 ( - _LN2 * lives ) * self . half_life / _LN2", "passed"),
        "usage of running allocations is added up without decay",
        DECAYED,
    ),
    Defect(
        "looks-move-the-account",
        "Decayed.follow",
        swap("used != self . amounts", "True"),
        "the sums depend on the number of accesses to the account",
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
        "a queue of weight 0 precedes other queues",
        (*DECAYED, *SHARES),
    ),
    Defect(
        "order-stands-still",
        "FairMemory.begin",
        drop("ranks"),
        "the order does not change as time passes",
        SHARES,
    ),
    Defect(
        "usage-goes-with-the-queue",
        "FairMemory.removed",
        swap("self . _detach (", "self._drop("),
        "a dynamic queue that is created again has no former usage",
        SHARES,
    ),
    Defect(
        "down-time-is-free",
        "FairMemory.restore",
        swap("account . time + BRIDGED", "account.time"),
        "usage during the server's down time does not count",
        SHARES,
    ),
)
