"""Seeded defects in elastic gangs: divided steps and minima, and growth in the wrong order."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

_FILE = "extensions/elastic/test_elastic_gangs"
_SEARCH = "standard/preemption/test_search"
_EXHAUSTIVE = f"{_SEARCH}::test_the_best_plans_with_elastic_gangs_equal_an_exhaustive_search"

ELASTIC = (
    Defect(
        "part-of-a-step",
        "Elastic.wanted",
        swap("step - ( stay - least ) % step", "1"),
        "a gang grows by one member instead of by its step",
        (f"{_FILE}::test_the_minimum_starts_together_and_growth_in_steps",),
    ),
    Defect(
        "starts-torn",
        "Elastic.lack",
        swap("present == wanted > 0", "wanted > 0"),
        "a gang starts with fewer asks than its minimum",
        (f"{_FILE}::test_members_below_the_minimum_do_not_start",),
    ),
    Defect(
        "one-too-many",
        "Elastic.wanted",
        swap("> most", "> most + step"),
        "a gang grows a step beyond its maximum",
        (f"{_FILE}::test_growth_ends_at_the_maximum",),
    ),
    Defect(
        "grows-first",
        "app_key",
        swap("units . behind", "not units.behind"),
        "growth precedes the asks of other applications",
        (f"{_FILE}::test_all_other_applications_precede_growth",),
    ),
    Defect(
        "still-there",
        "Elastic._count",
        without("leaving"),
        "members that are being stopped count towards the minimum",
        (f"{_FILE}::test_members_that_are_being_stopped_do_not_count_in_the_minimum",),
    ),
    Defect(
        "tears-the-minimum",
        "Elastic.whole",
        swap("members [ : least ]", "members[:1]"),
        "the minimum is divided: one member counts as the whole",
        (f"{_FILE}::test_the_minimum_is_stopped_last_and_as_a_whole", _EXHAUSTIVE),
    ),
    Defect(
        "tears-a-step",
        "Elastic.of",
        swap("begin + step", "begin + 1"),
        "a lowered maximum stops one member of a step instead of the whole step",
        (f"{_FILE}::test_a_lowered_maximum_stops_whole_steps",),
    ),
    Defect(
        "measures-one",
        "Candidates._judge_members",
        swap("tuple ( given . items ( ) )", "unit.first.request.ask.ask_class.items"),
        "the guarantee of a queue is compared with one member of a unit instead of the whole unit",
        (f"{_FILE}::test_a_protected_minimum_is_not_stopped_in_part", _EXHAUSTIVE),
    ),
    Defect(
        "taken-twice",
        "Candidates._judge_members",
        without("parts"),
        "a step, and the whole gang that contains the step, are both victims",
        (f"{_SEARCH}::test_the_best_plans_in_rare_worlds_equal_an_exhaustive_search",),
    ),
    Defect(
        "spares-growth",
        "Candidates._judge_members",
        swap("GROWTH", "kind"),
        "a step of growth is not stopped before younger allocations",
        (f"{_FILE}::test_a_step_is_stopped_before_younger_allocations", _EXHAUSTIVE),
    ),
    Defect(
        "gangs-of-nobody",
        "read_members",
        swap("0 <", "0 <="),
        "a gang of no members is accepted",
        ("extensions/elastic/test_elastic_gangs::test_contradicting_terms_are_refused",),
    ),
    Defect(
        "steps-without-a-minimum",
        "read_elastic",
        never("least"),
        "a step without a minimum is accepted",
        ("extensions/elastic/test_elastic_gangs::test_contradicting_terms_are_refused",),
        nth=1,
    ),
    Defect(
        "maximum-between-steps",
        "read_elastic",
        never("step"),
        "a maximum that no number of whole steps reaches is accepted",
        ("extensions/elastic/test_elastic_gangs::test_contradicting_terms_are_refused",),
    ),
    Defect(
        "leaving-and-staying",
        "Elastic.mark_leaving",
        drop("_forget"),
        "a member that is being stopped is stopped again with its step",
        (
            "extensions/elastic/test_elastic_gangs::test_members_that_are_being_stopped_do_not_count_in_the_minimum",
        ),
    ),
    Defect(
        "not-behind-at-its-minimum",
        "Elastic._count",
        swap(">=", ">"),
        "a gang at its minimum does not rank behind other applications",
        ("extensions/elastic/test_elastic_gangs::test_asks_without_a_task_group_are_placed_singly",),
    ),
    Defect(
        "never-grows",
        "Elastic.wanted",
        swap("stay < least", "stay <= least"),
        "a gang at its minimum does not ask for another step",
        ("extensions/elastic/test_elastic_gangs::test_a_step_consists_of_the_first_asks_of_the_application",),
    ),
    Defect(
        "never-full",
        "Elastic.wanted",
        swap("> most", ">= most"),
        "a gang never grows to its maximum",
        ("extensions/elastic/test_elastic_gangs::test_growth_ends_at_the_maximum",),
    ),
    Defect(
        "gone-and-still-a-member",
        "Elastic.remove_booked",
        drop("_forget"),
        "a step still has a member that has ended",
        ("extensions/elastic/test_elastic_gangs::test_growth_ends_at_the_maximum",),
    ),
    Defect(
        "steps-from-the-front",
        "Elastic.whole",
        swap("range ( least ,", "range(0,"),
        "the members of the minimum are stopped as steps",
        ("extensions/elastic/test_elastic_gangs::test_a_step_consists_of_the_first_asks_of_the_application",),
    ),
    Defect(
        "minimum-of-those-that-leave",
        "Elastic.wanted",
        swap("self . size - self . leaving", "self.size"),
        "members that are being stopped are not replaced",
        ("extensions/elastic/test_elastic_gangs::test_waiting_members_are_placed_when_others_are_spared",),
    ),
    Defect(
        "no-more-than-most",
        "read_members",
        swap("<= MAX_MEMBERS", "< MAX_MEMBERS"),
        "the largest gang that is allowed is refused",
        ("extensions/elastic/test_elastic_gangs::test_terms_at_their_bounds_are_accepted",),
    ),
    Defect(
        "gangs-of-one-size",
        "read_elastic",
        swap("most < least", "most <= least"),
        "a gang whose maximum is its minimum is refused",
        ("extensions/elastic/test_elastic_gangs::test_terms_at_their_bounds_are_accepted",),
    ),
)
