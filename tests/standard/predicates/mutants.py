"""Seeded defects in predicate checks: in the use of the RM's answers, and in how long they are valid."""

from mutants.defect import Defect
from mutants.operators import drop, never, returns, swap, without

PREDICATES = (
    Defect(
        "accepted-on-the-first-alone",
        "predicates:_counts",
        without("1"),
        "asks alone on a further node of a check are checked again",
        (
            "predicates/test_predicates",
            "predicates/test_predicate_results",
            "properties/test_decisions::test_core_and_oracle_agree",
        ),
    ),
    Defect(
        "one-check-for-all",
        "PredicateChecks.ask",
        without("assumed"),
        "the RM judges a second ask on a node as if the first was not there",
        (
            "predicates/test_predicates",
            "predicates/test_predicate_results",
            "properties/test_decisions::test_core_and_oracle_agree",
        ),
    ),
    Defect(
        "known-while-assumed",
        "PredicateChecks.is_needed",
        returns("(ask_class, allocate) not in node.results"),
        "an ask is placed by an older result, although another ask is assumed on the node meanwhile",
        (
            "predicates/test_predicates",
            "predicates/test_predicate_results",
            "properties/test_decisions::test_core_and_oracle_agree",
        ),
        slow=True,
        nth=2,
    ),
    Defect(
        "unknown-beside-the-first",
        "take_answer",
        never("first"),
        "answers of the RM count for a node with an allocation that the RM did not know",
        (
            "predicates/test_predicate_results",
            "properties/test_decisions::test_core_and_oracle_agree",
        ),
        slow=True,
    ),
    Defect(
        "time-never-begins",
        "Exchange._send",
        drop("_note_sent"),
        "an RM that does not answer blocks its asks for ever",
        ("test_time_of_checks",),
    ),
    Defect(
        "values-do-not-count",
        "asks:_digest",
        swap("value", "value and 1"),
        "asks for different zones share results",
        ("wire/test_callbacks",),
        nth=1,
    ),
)
