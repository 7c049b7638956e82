"""Notices of preemption: who is told, how long, who is spared; and what is lost."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

NOTICE = "scenarios/test_scenarios::test_scenario[preemption_notice]"

NOTICES = (
    Defect(
        "stopped-without-notice",
        "victims:stop_victim",
        never("seconds"),
        "a victim of a queue with notice is stopped at once",
        (NOTICE,),
    ),
    Defect(
        "never-spared",
        "notice_over",
        never("_is_needed"),
        "a victim is stopped though nobody needs its room any more",
        (NOTICE, "client/test_notices::test_a_notice_is_withdrawn_once_nobody_needs_the_room"),
    ),
    Defect(
        "spared-late",
        "Reservations.end",
        drop("_let_go"),
        "a victim is spared at its deadline only",
        (NOTICE, "client/test_notices::test_a_notice_is_withdrawn_once_nobody_needs_the_room"),
    ),
    Defect(
        "later-and-later",
        "answer_notices",
        swap("not notice . has_answered", "True"),
        "an RM puts its victim off again and again",
        (NOTICE,),
    ),
    Defect(
        "beyond-the-deadline",
        "answer_notices",
        swap("min", "max"),
        "an RM puts its victim off beyond the deadline",
        ("core/handlers/test_notices::test_no_answer_puts_a_victim_off_beyond_its_deadline",),
    ),
    Defect(
        "all-is-lost",
        "seconds_lost",
        swap("min ( run , now - since )", "run"),
        "what a checkpoint keeps counts as lost",
        (NOTICE,),
    ),
    Defect(
        "silence-pays",
        "costs_of",
        without("silent"),
        "of two with equal losses the one whose RM has said nothing goes first",
        ("core/handlers/test_notices::test_with_equal_losses_the_known_one_goes",),
    ),
    Defect(
        "losses-are-free",
        "_give_notice",
        drop("pledge"),
        "victims under notice do not count in the losses of the hour",
        ("core/handlers/test_notices::test_what_is_under_notice_counts_as_lost",),
    ),
)
