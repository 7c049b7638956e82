"""Ageing: the order follows the age of the oldest ask, up to the bound, and nothing else does."""

from mutants.defect import Defect
from mutants.operators import drop, swap

AGES = ("extensions/ageing/test_ageing",)

AGEING = (
    Defect(
        "age-without-bound",
        "Ageing.bonus",
        swap("min ( self . most , steps * self . step )", "steps * self.step"),
        "an application that waits for long comes before everything",
        AGES,
    ),
    Defect(
        "leaf-does-not-age",
        "order:raise_by",
        drop("count_raised"),
        "a leaf keeps its place among its siblings however old its asks are",
        AGES,
    ),
    Defect(
        "age-outlives-its-ask",
        "PendingAsks.leave",
        drop("left"),
        "younger asks inherit the bonus of one that was placed",
        AGES,
        nth=1,
    ),
    Defect(
        "age-of-what-is-gone",
        "Ages.follow",
        swap("not heap [ 0 ] [ 1 ] . is_pending", "False"),
        "an ask that was placed or released goes on ageing",
        AGES,
    ),
    Defect(
        "moved-without-age",
        "moving:prepare",
        drop("apply_leaf"),
        "an application that is moved ages as in the queue that it left",
        AGES,
        nth=1,
    ),
)
