"""Backfill: shadow starts, those who pass them, and what moves them."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

BACKFILL = (
    Defect(
        "who-ends-in-time-stays-out",
        "PlannedRoom.lets",
        swap("<=", "<"),
        "an ask that ends just when the holder starts does not pass it",
        ("core/scheduling/test_shadows",),
    ),
    Defect(
        "holders-block-each-other",
        "PlannedRoom.left_on",
        without("holder"),
        "a holder has to leave its own room free beside that of another holder",
        ("properties/test_shadow_starts",),
    ),
    Defect(
        "no-grace",
        "Shadows.hold",
        swap("start + GRACE", "start"),
        "a start moves before the RM can report the end that it waits for",
        ("core/scheduling/test_shadows",),
    ),
    Defect(
        "starts-on-top-of-each-other",
        "StartSearch._free_on",
        drop("refund"),
        "the same room is held for two starts",
        ("core/scheduling/test_start_domains",),
    ),
    Defect(
        "longer-asks-rule-out-shorter-ones",
        "NodePool.rules_out",
        never("runtime"),
        "an ask that ends before a start is not tried, as one that runs on found no node",
        ("waiting/test_supply",),
    ),
    Defect(
        "next-one-sleeps-on",
        "Shadows._end",
        drop("mark"),
        "after a holder has started, the next blocked ask holds no start",
        ("core/scheduling/test_shadows",),
    ),
    Defect(
        "drained-node-is-held",
        "Cluster._is_another",
        drop("_shadows"),
        "a start is planned on a node that takes no more asks",
        ("core/scheduling/test_shadows",),
    ),
    Defect(
        "others-of-the-gang-sleep-on",
        "Shadows._end",
        drop("readmit"),
        "a gang that has lost a member holds no start any more",
        ("core/scheduling/test_shadows",),
    ),
    Defect(
        "start-in-the-old-domain",
        "PlannedStarts._has_changed",
        without("inside"),
        "a gang starts where it was planned, though its members have to be elsewhere by now",
        ("core/scheduling/test_start_domains",),
    ),
    Defect(
        "lost-members-hold-starts",
        "GangSearch.decide",
        without("together"),
        "a member that waits for its lost place holds a start as well",
        ("core/scheduling/test_start_domains",),
    ),
    Defect(
        "start-apart-from-the-gang",
        "DomainStarts._find_bounds",
        without("held"),
        "more members of a gang are planned in another domain than those that it has",
        ("core/scheduling/test_start_domains", "properties/test_gang_starts"),
    ),
    Defect(
        "start-on-kept-room",
        "StartSearch._free_on",
        never("kept"),
        "a start is planned on room that is kept for a lost member of another gang",
        ("core/scheduling/test_start_domains",),
    ),
    Defect(
        "in-vain-without-a-turn",
        "Unplanned.turn",
        never("_next"),
        "an RM with thousands of asks that never start has each searched for at once",
        ("core/scheduling/test_unplanned",),
    ),
    Defect(
        "too-large-is-searched-for",
        "Measures._to_plan",
        never("is_too_large"),
        "asks that are larger than any node take the turns of others",
        ("core/scheduling/test_shadows",),
    ),
)
