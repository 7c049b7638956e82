"""Trials on a copy: with what an ask would start."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap, without

_STARTING = ("core/whatif/test_starting",)

PLANS = (
    Defect(
        "the-ask-is-another-one",
        "_Copy.trial",
        swap("max ( 0 , self . _at )", "self._at + 1"),
        "the ask itself counts among those that start before it",
        _STARTING,
    ),
    Defect(
        "asked-without-saying",
        "_Copy.trial",
        swap("is not", "is"),
        "a trial does not say that the RM was not asked about the node",
        _STARTING,
    ),
    Defect(
        "cut-short-and-complete",
        "_Copy.trial",
        swap("not", ""),
        "a trial that was cut short says that it is complete, and a complete one that it was cut short",
        _STARTING,
        nth=2,
    ),
    Defect(
        "lifted-by-all-before",
        "_Copy.used_since",
        swap("begin", "0"),
        "what had started before a maximum was lifted counts towards the new one",
        _STARTING,
        nth=2,
    ),
    Defect(
        "the-hold-stays",
        "_Copy.carry_out",
        swap("True , False", "True, True"),
        "nothing starts on the copy after a change",
        _STARTING,
    ),
    Defect(
        "named-by-kind-alone",
        "_Copy.quota_of",
        without("path"),
        "the maximum of another queue is raised than the one that is full",
        _STARTING,
        nth=1,
    ),
    Defect(
        "widened-and-not-noted",
        "_Copy.widen",
        drop("note_widened"),
        "who waits for a maximum is not tried when it is raised",
        _STARTING,
    ),
    Defect(
        "several-nodes",
        "starting:_Search._step",
        never("FREED_NODE"),
        "a second node is freed or added when the first did not help",
        _STARTING,
    ),
    Defect(
        "what-was-needed",
        "starting:_Search._needed",
        swap("before [ name ] +", ""),
        "a maximum is named that does not even hold what has started before",
        _STARTING,
    ),
    Defect(
        "the-dearest-is-freed",
        "starting:_Search._node_change",
        swap("min", "max"),
        "the node with most allocations is freed",
        _STARTING,
    ),
    Defect(
        "a-node-as-small-as-the-others",
        "starting:_one_more",
        swap("max ( value , size . get ( name , 0 ) )", "size.get(name, 0)"),
        "the node that is added is too small for the ask",
        _STARTING,
    ),
    Defect(
        "size-is-an-obstacle",
        "starting:_first_failing",
        without("SizeCheck"),
        "no change is found for an ask that is larger than what a queue has left",
        _STARTING,
    ),
    Defect(
        "only-what-lacks",
        "starting:_widened",
        swap("before [ name ] +", ""),
        "the new maximum is what the old one lacks",
        _STARTING,
    ),
    Defect(
        "costs-what-is-there",
        "starting:_cost",
        swap("len ( node . allocations )", "0"),
        "a node with many allocations is freed though one has few",
        _STARTING,
    ),
)
