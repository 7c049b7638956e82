"""What operators do to applications: hold, priority, queue."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

HOLDS = (
    Defect(
        "held-is-tried",
        "Ranks.rank_app",
        without("held"),
        "asks of a held application are placed",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "held-replaces",
        "ReplacementSearch.find",
        without("held"),
        "a real ask of a held application takes the place of a placeholder",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "held-keeps-nodes",
        "_Hold.steps",
        drop("give_up_waits"),
        "nodes are still kept for a held application",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "held-next-to-start",
        "StateAware.admitted",
        without("held"),
        "a held application is the next to start in its state-aware queue, and nobody else is",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "new-asks-keep-theirs",
        "PendingAsks.add",
        never("priority"),
        "an ask that comes later has its own priority beside that of the operator",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "victims-by-their-own",
        "Candidates._restraint",
        swap("request . priority", "request . ask . priority"),
        "victims are spared by the priority of their asks, not by that of an operator",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "moves-while-it-runs",
        "why_not_to",
        never("held"),
        "an application with allocations is moved, and its usage stays behind",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "one-too-many-moves",
        "_why_not_running",
        never("most"),
        "an application that runs is one too many for a limit of its user in another queue",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "pending-stays-behind",
        "lifecycle:leave_leaf",
        drop("refund"),
        "asks that moved still count in the queue that they left",
        ("extensions/holds/test_holds",),
    ),
    Defect(
        "marks-outlive",
        "Holds.replayed",
        drop("_tell"),
        "marks of applications that ended during an outage are kept for ever",
        ("extensions/holds/test_holds",),
    ),
)
