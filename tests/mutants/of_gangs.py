"""Gangs: placeholders, those who replace them, and the time they have."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

GANGS = (
    Defect(
        "queues-of-refused-gangs",
        "apps:_place",
        drop("take_back"),
        "a queue stays for ever that was created for a gang that was refused",
        ("handlers/test_namespace_tags",),
    ),
    Defect(
        "linked-counts-at-once",
        "Pairs._pair",
        swap("elsewhere", "True"),
        "a replacement takes room beside its placeholder on the same node",
        ("scenarios/test_scenarios::test_scenario[gang]",),
        nth=2,
    ),
    Defect(
        "larger-replaces",
        "is_covered",
        swap("all", "any"),
        "a real ask that is larger in one type takes the place of a placeholder",
        ("scenarios/test_scenarios::test_scenario[gang_corners]",),
    ),
    Defect(
        "cancelled-before-its-end",
        "Pairs.cancel",
        swap("cancel", "give_up"),
        "a real ask runs beside the placeholders that were too small for it",
        ("test_cancelled_placeholders",),
        nth=2,
    ),
    Defect(
        "replaces-where-it-may-not-run",
        "ReplacementSearch.find",
        never("required_node"),
        "an ask that requires another node takes the placeholder's",
        ("test_museum::test_a_placeholder_replaced_on_another_node_counts_once",),
    ),
    Defect(
        "kept-and-not-replaced",
        "Moves._mark",
        drop("mark_due"),
        "a real ask that was there before the placeholder does not replace it",
        ("handlers/test_gangs::test_a_placeholder_that_the_rm_agrees_to_is_replaced_at_once",),
    ),
    Defect(
        "no-time-for-those-that-wait",
        "end_placeholder_time",
        without("is_open"),
        "placeholders that keep no room yet wait without an end once the others are replaced",
        ("handlers/test_gangs::test_placeholders_that_wait_time_out_when_the_others_are_replaced",),
    ),
    Defect(
        "soft-fails",
        "ON_TIMEOUT",
        swap("RESUME", "FAIL"),
        "an application with a soft gang fails",
        ("scenarios/test_scenarios::test_scenario[gang_timeouts]",),
    ),
    Defect(
        "swap-asks-for-leave",
        "gang:PAIRS",
        swap("CONFIRM", "ROLL_BACK"),
        "the real ask waits again when its placeholder is gone",
        (
            "scenarios/test_scenarios::test_scenario[gang]",
            "scenarios/test_scenarios::test_scenario[gang_nodes]",
        ),
    ),
    Defect(
        "lost-node-keeps-its-pair",
        "gang:PAIRS",
        swap("TIMED_OUT", "OPEN"),
        "a placeholder that ends alone counts as one that can be replaced",
        ("scenarios/test_scenarios::test_scenario[gang_nodes]",),
        nth=2,
    ),
    Defect(
        "smaller-one-keeps-the-rest",
        "Allocations.take_place",
        without("items"),
        "nobody is woken for what a placeholder kept and its smaller replacement does not take",
        ("scenarios/test_scenarios::test_scenario[gang_corners]",),
    ),
    Defect(
        "victim-is-replaced",
        "Allocations.preempt",
        drop("give_up"),
        "a placeholder that is a victim is replaced at the same time",
        ("scenarios/test_scenarios::test_scenario[gang_preemption]",),
    ),
)
