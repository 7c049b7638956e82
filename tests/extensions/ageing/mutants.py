"""Seeded defects in ageing: the bonus that the age of its oldest ask gives an application."""

from mutants.defect import Defect
from mutants.operators import drop, swap

AGES = ("extensions/ageing/test_ageing",)

AGEING = (
    Defect(
        "age-without-bound",
        "Ageing.bonus",
        swap("min ( self . most , steps * self . step )", "steps * self.step"),
        "an old application precedes applications of any priority",
        AGES,
    ),
    Defect(
        "leaf-does-not-age",
        "order:raise_by",
        drop("count_raised"),
        "a leaf keeps its place among its siblings, whatever the age of its asks",
        AGES,
    ),
    Defect(
        "age-outlives-its-ask",
        "PendingAsks.leave",
        drop("left"),
        "younger asks have the age bonus of an ask that was placed",
        AGES,
        nth=1,
    ),
    Defect(
        "age-of-what-is-gone",
        "Ages.follow",
        swap("not heap [ 0 ] [ 1 ] . is_pending", "False"),
        "the age bonus of an ask that was placed or released still increases",
        AGES,
    ),
    Defect(
        "moved-without-age",
        "moving:prepare",
        drop("enter_leaf"),
        "a moved application has the age bonus of its former queue",
        AGES,
    ),
)
