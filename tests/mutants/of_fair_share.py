"""Fairness with memory: what was used counts, exactly and for as long as it should."""

from mutants.defect import Defect
from mutants.operators import drop, swap

MEMORY = ("core/model/test_memory",)
SHARES = ("core/scheduling/test_fair_shares",)

FAIR_SHARE = (
    Defect(
        "gains-without-decay",
        "Decayed.at",
        swap("- expm1 ( - _LN2 * lives ) * self . half_life / _LN2", "passed"),
        "usage that runs adds up as if nothing of it decayed",
        MEMORY,
    ),
    Defect(
        "looks-move-the-account",
        "Decayed.follow",
        swap("used != self . amounts", "True"),
        "the sums depend on how often the account was touched",
        MEMORY,
    ),
    Defect(
        "the-present-second-moves",
        "Decayed.at_step",
        swap("self . before if self . time > step else self . at ( step )", "self.values"),
        "a change within a second changes the order of that second",
        MEMORY,
    ),
    Defect(
        "weight-of-nothing-is-one",
        "weighted",
        swap("inf", "share"),
        "a queue of weight 0 goes before others",
        (*MEMORY, *SHARES),
    ),
    Defect(
        "order-stands-still",
        "clock:follow_time",
        drop("ranks"),
        "the order does not follow the time",
        SHARES,
    ),
    Defect(
        "usage-goes-with-the-queue",
        "FairShares.detach",
        swap("self . _rests (", "self._drop("),
        "a dynamic queue that comes back has used nothing",
        SHARES,
    ),
    Defect(
        "down-time-is-free",
        "FairShares.restore",
        swap("account . time + BRIDGED", "account.time"),
        "what ran while the server was away counts for nothing",
        SHARES,
    ),
)
