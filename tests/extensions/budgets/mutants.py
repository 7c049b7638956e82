"""Budgets over RMs: in one core, and what cores may use of the documents of the escrow."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap

IN_CORE = ("budgets/test_budgets",)
ESCROW = ("rms/test_escrow",)

BUDGETS = (
    Defect(
        "other-rms-sleep-on",
        "quotas:note_freed",
        never("waiters"),
        "an ask of one RM waits for ever though another RM has released its budget",
        IN_CORE,
    ),
    Defect(
        "budget-leaves-first",
        "Counting.steps",
        swap("False , True", "True , False"),
        "while members are counted anew a budget counts less than its former members have",
        IN_CORE,
    ),
    Defect(
        "usage-stays-with-nobody",
        "Account.forget",
        drop("allocated"),
        "the budget of an RM that left is charged for ever",
        IN_CORE,
    ),
    Defect(
        "awake-for-nothing",
        "Budgets._rest",
        drop("pop"),
        "a core that has told everybody of more room is called again and again",
        IN_CORE,
    ),
    Defect(
        "users-are-told-of-last",
        "Watch.room",
        drop("reverse"),
        "events say that an ask fits in a budget before they say which limit of its user stops it now",
        ("budgets/test_events",),
    ),
    Defect(
        "document-shrinks-before-the-core",
        "Escrow._shrink",
        drop("set_slices"),
        "two members spend what one of them gives back",
        ESCROW,
    ),
    Defect(
        "trusts-a-write-that-may-land-later",
        "Escrow._settle",
        swap("( plan [ rm_id ] . epoch , EMPTY )", "self._written[name, rm_id]"),
        "a late write takes a slice away that the core has again",
        ESCROW,
    ),
    Defect(
        "grants-while-use-is-charged",
        "slices:_part",
        swap("not budget . settling", "True"),
        "after a wipe of the store the rest is granted before all use is charged",
        ESCROW,
    ),
    Defect(
        "rebalances-without-compare-and-set",
        "Escrow._write",
        swap("before . revision", "(await self._store.read(key)).revision"),
        "two members take the rest of a budget, and the later write hides the earlier one",
        ESCROW,
    ),
    Defect(
        "keeps-what-it-always-uses",
        "slices:_part",
        swap("lack > rest", "False"),
        "an RM that always asks keeps a whole budget, and others get none of it",
        ESCROW,
    ),
    Defect(
        "covers-use-beyond-the-fair-part",
        "slices:_part",
        swap("min ( used , most , keeps )", "min(used, most)"),
        "a slice that has shrunk to its fair part grows again with what it still uses",
        ESCROW,
    ),
    Defect(
        "large-needs-lower-the-parts",
        "slices:_fair",
        swap("room -= need", "room -= 0"),
        "what small needs leave of the limit is nobody's",
        ESCROW,
    ),
    Defect(
        "few-licences-stay-where-they-are",
        "slices:_fair",
        swap("part + 1", "part"),
        "with more RMs than licences the first ones keep them",
        ESCROW,
    ),
)
