"""Elastic gangs: whole steps, growth last and stopped first, a minimum that is never torn."""

from mutants.defect import Defect
from mutants.operators import swap, without

_FILE = "extensions/elastic/test_elastic_gangs"
_SEARCH = "standard/preemption/test_search"
_EXHAUSTIVE = f"{_SEARCH}::test_the_best_plans_with_elastic_gangs_are_those_of_trying_everything"

ELASTIC = (
    Defect(
        "part-of-a-step",
        "Elastic.wanted",
        swap("step - ( stay - least ) % step", "1"),
        "a gang grows by one member where its step is larger",
        (f"{_FILE}::test_the_minimum_starts_together_and_the_rest_in_steps",),
    ),
    Defect(
        "starts-torn",
        "Elastic.lack",
        swap("present == wanted > 0", "wanted > 0"),
        "a gang starts with fewer asks than its minimum",
        (f"{_FILE}::test_less_than_the_minimum_does_not_start",),
    ),
    Defect(
        "one-too-many",
        "Elastic.wanted",
        swap("> most", "> most + step"),
        "a gang grows a step beyond its maximum",
        (f"{_FILE}::test_the_maximum_is_the_end_of_growth",),
    ),
    Defect(
        "grows-first",
        "app_key",
        swap("units . behind", "not units.behind"),
        "growth comes before the asks of other applications",
        (f"{_FILE}::test_growth_comes_last_in_every_order",),
    ),
    Defect(
        "still-there",
        "Elastic._count",
        without("leaving"),
        "members that are being stopped count for the minimum",
        (f"{_FILE}::test_members_that_are_leaving_count_for_no_minimum",),
    ),
    Defect(
        "tears-the-minimum",
        "Elastic.whole",
        swap("members [ : least ]", "members[:1]"),
        "one member of the minimum is the whole minimum",
        (f"{_FILE}::test_the_minimum_goes_whole_and_last", _EXHAUSTIVE),
    ),
    Defect(
        "tears-a-step",
        "Elastic.of",
        swap("begin + step", "begin + 1"),
        "a lowered maximum stops one member of a step",
        (f"{_FILE}::test_a_lowered_maximum_shrinks_by_whole_steps",),
    ),
    Defect(
        "measures-one",
        "Candidates._judge_members",
        swap("tuple ( given . items ( ) )", "unit.first.request.ask.ask_class.items"),
        "the guarantee of a queue is measured on one member of a unit",
        (f"{_FILE}::test_no_part_of_the_minimum_goes_where_the_whole_may_not", _EXHAUSTIVE),
    ),
    Defect(
        "taken-twice",
        "Candidates._judge_members",
        without("parts"),
        "a step and the whole gang that it is a part of are both victims",
        (_EXHAUSTIVE,),
    ),
    Defect(
        "spares-growth",
        "Candidates._judge_members",
        swap("GROWTH", "kind"),
        "a step of growth is not stopped before what is younger",
        (f"{_FILE}::test_growth_goes_before_what_is_younger", _EXHAUSTIVE),
    ),
)
