"""Seeded defects in notices of preemption: recipients, durations, spared victims, and lost work."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

NOTICE = "scenarios/test_scenarios::test_scenario[preemption_notice]"

_STALE = "core/handlers/test_stale_stops::test_a_notice_ends_with_its_reason"

NOTICES = (
    Defect(
        "stopped-without-notice",
        "Notices.put_off",
        never("seconds"),
        "a victim of a queue with notice is stopped at once",
        (NOTICE,),
    ),
    Defect(
        "never-spared",
        "_notice_over",
        never("_is_needed"),
        "a victim is stopped although its room is not needed any more",
        (NOTICE, "client/test_notices::test_an_unnecessary_notice_is_withdrawn"),
    ),
    Defect(
        "spared-late",
        "Reservations.end",
        drop("_let_go"),
        "a victim is spared at its deadline only",
        (NOTICE, "client/test_notices::test_an_unnecessary_notice_is_withdrawn"),
    ),
    Defect(
        "later-and-later",
        "notice:_answer",
        swap("not notice . has_answered", "True"),
        "an RM can delay the stop of its victim again and again",
        (NOTICE,),
    ),
    Defect(
        "beyond-the-deadline",
        "notice:_answer",
        swap("min", "max"),
        "an RM can delay the stop of its victim beyond the deadline",
        ("extensions/notice/test_notices::test_a_victim_is_stopped_at_the_deadline_at_the_latest",),
    ),
    Defect(
        "all-is-lost",
        "seconds_lost",
        swap("min ( run , now - since )", "run"),
        "work that a checkpoint saved counts as lost",
        (NOTICE,),
    ),
    Defect(
        "silence-pays",
        "costs_of",
        without("silent"),
        "of two victims with equal losses, the one whose RM has reported nothing is stopped",
        ("extensions/notice/test_notices::test_of_equal_losses_the_victim_with_a_report_is_stopped",),
    ),
    Defect(
        "losses-are-free",
        "UnderNotice.__init__",
        drop("pledge"),
        "victims under notice do not count in the losses of the current hour",
        ("extensions/notice/test_notices::test_work_under_notice_counts_as_lost",),
    ),
    Defect(
        "stopped-whatever-has-become",
        "notice:_is_needed",
        swap("_stands ( partition , found [ 0 ] , now )", "True"),
        "a victim is stopped although the laws forbid it by now, or its stop has no use",
        (_STALE,),
    ),
    Defect(
        "priority-of-the-past",
        "_as_candidate",
        never("priority"),
        "a victim whose priority was raised is stopped",
        (_STALE,),
    ),
    Defect(
        "stopped-for-nobody",
        "is_useful",
        without("room_shortage"),
        "a victim is stopped although the ask does not fit on the node afterwards",
        ("core/handlers/test_stale_stops::test_a_notice_without_use_is_withdrawn_at_the_deadline",),
    ),
    Defect(
        "stopped-for-a-full-queue",
        "is_useful",
        without("quota_shortage"),
        "a victim is stopped although the ask exceeds a maximum",
        (_STALE,),
    ),
    Defect(
        "stopped-though-preemption-is-off",
        "notice:_stands",
        swap("preemption_of ( partition . check_context ) . remedy . enabled", "True"),
        "a victim is stopped although preemption was disabled",
        (_STALE,),
    ),
    Defect(
        "told-at-the-deadline",
        "configuration:reload",
        drop("ask_again"),
        "a void notice is withdrawn only at its deadline",
        (_STALE,),
    ),
    Defect(
        "stays-are-not-asked",
        "Stay.reconsider",
        drop("set"),
        "a victim that may be spared remains under notice until its deadline",
        ("extensions/notice/test_notices::test_a_spared_victim_does_not_count_as_lost",),
    ),
    Defect(
        "deadline-of-the-spared",
        "Stay.end",
        drop("cancel"),
        "a spared victim is stopped at its deadline",
        ("extensions/notice/test_notices::test_the_removal_of_an_application_ends_its_notice",),
    ),
)
