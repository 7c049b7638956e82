"""What operators do to applications: hold, priority, queue."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

OPERATORS = (
    Defect(
        "held-is-tried",
        "Ranks._place",
        without("held"),
        "asks of a held application are placed",
        ("operators/test_changes",),
    ),
    Defect(
        "held-replaces",
        "ReplacementSearch.find",
        without("held"),
        "a real ask of a held application takes the place of a placeholder",
        ("operators/test_changes",),
    ),
    Defect(
        "held-keeps-nodes",
        "_Hold.steps",
        drop("give_up_waits"),
        "nodes are still kept for a held application",
        ("operators/test_changes",),
    ),
    Defect(
        "held-next-to-start",
        "Ranks.rank_app",
        without("held"),
        "a held application is the next to start in its state-aware queue, and nobody else is",
        ("operators/test_changes",),
    ),
    Defect(
        "new-asks-keep-theirs",
        "PendingAsks.add",
        never("priority"),
        "an ask that comes later has its own priority beside that of the operator",
        ("operators/test_changes",),
    ),
    Defect(
        "victims-by-their-own",
        "Candidates._restraint",
        swap("request . priority", "request . ask . priority"),
        "victims are spared by the priority of their asks, not by that of an operator",
        ("operators/test_changes",),
    ),
    Defect(
        "moves-while-it-runs",
        "changes:why_not_to",
        never("held"),
        "an application with allocations is moved, and its usage stays behind",
        ("operators/test_changes",),
    ),
    Defect(
        "one-too-many-moves",
        "changes:_why_not_running",
        never("most"),
        "an application that runs is one too many for a limit of its user in another queue",
        ("operators/test_changes",),
    ),
    Defect(
        "pending-stays-behind",
        "lifecycle:leave_leaf",
        drop("refund"),
        "asks that moved still count in the queue that they left",
        ("operators/test_changes",),
    ),
    Defect(
        "drain-without-deadline-stops",
        "OperatorMethods._drain",
        swap("None", "0.0"),
        "a drain without a deadline stops all at once",
        ("services/test_operators",),
    ),
    Defect(
        "marks-outlive",
        "replay:_end",
        drop("unmarked"),
        "marks of applications that ended during an outage are kept for ever",
        ("operators/test_changes",),
    ),
)
