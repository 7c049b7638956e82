"""Gangs in topology domains: the domain, all or none, and the places of lost members."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap

TOPOLOGY = (
    Defect(
        "largest-domain-first",
        "DomainSearch._find",
        swap("self . _candidates ( depth , only )", "reversed(self._candidates(depth, only))"),
        "a gang takes the largest domain, and leaves room for no larger gang",
        ("extensions/topology/test_topology_gangs::test_the_smallest_fitting_domain_is_used",),
    ),
    Defect(
        "half-a-gang",
        "GangSearch._incomplete",
        swap("not missing", "True"),
        "a gang is placed before the asks for all of its placeholders have come",
        ("scenarios/test_scenarios::test_scenario[topology]",),
    ),
    Defect(
        "divided-slices",
        "DomainSearch._candidates",
        swap("slots + sums . get ( path , 0 )", "slots"),
        "domains are ordered by the slots of one kind of members",
        ("extensions/topology/test_topology_gangs::test_domains_are_ordered_by_the_slots_of_all_kinds",),
    ),
    Defect(
        "sleeps-through-a-slot",
        "NoPlace.may_use",
        swap("is None", "is not None"),
        "a gang is not tried again when a node in a domain has room",
        ("scenarios/test_scenarios::test_scenario[topology]",),
    ),
    Defect(
        "takes-a-lost-place",
        "LostPlaces._find",
        drop("charge"),
        "another ask takes the room that is kept for a lost gang member",
        ("scenarios/test_scenarios::test_scenario[topology]",),
    ),
    Defect(
        "keeps-for-ever",
        "LostPlaces.overdue",
        drop("_leave_node"),
        "the room of a lost gang member is kept when its time is over",
        (
            "extensions/topology/test_topology_gangs::test_the_room_of_a_lost_member_is_reserved_for_a_limited_time",
        ),
    ),
    Defect(
        "leaves-its-domain",
        "DomainTerms.is_strict",
        swap("self . required or", ""),
        "a lost gang member is placed outside of the domain that is required",
        ("extensions/topology/test_topology_gangs::test_a_lost_member_waits_for_its_domain",),
    ),
    Defect(
        "place-on-a-refused-node",
        "LostPlaces.seek",
        drop("_ask"),
        "room is kept for a lost member on a node that the RM does not let it go to",
        ("extensions/topology/test_topology_gangs",),
    ),
    Defect(
        "new-nodes-in-no-domain",
        "DomainBook.current",
        never("_births"),
        "nodes that come later are in no domain",
        ("extensions/topology/test_topology_gangs",),
    ),
    Defect(
        "domains-of-former-nodes",
        "Domains.remove",
        drop("nodes"),
        "a domain without nodes is a candidate",
        ("extensions/topology/test_topology_gangs::test_a_silent_rm_is_asked_again_about_the_same_node",),
        nth=1,
    ),
    Defect(
        "level-of-no-name",
        "Domains.depth",
        swap("+ 1", ""),
        "a level is taken for the next wider one",
        ("extensions/topology/test_topology_gangs::test_the_smallest_fitting_domain_is_used",),
    ),
    Defect(
        "a-slice-too-few",
        "slices_of",
        swap("if rest", "if False"),
        "the last members of a gang, too few for a slice, may be anywhere",
        ("properties/test_topology::test_a_domain_is_found_exactly_if_one_exists",),
    ),
    Defect(
        "widest-level-first",
        "DomainSearch.find",
        swap("range ( inside . depth , inside . last - 1 , - 1 )", "range(inside.last, inside.depth + 1)"),
        "a gang goes to a wide domain though a narrow one would do",
        ("properties/test_topology::test_a_domain_is_found_exactly_if_one_exists",),
    ),
    Defect(
        "worst-domain",
        "DomainSearch.lack",
        swap("min ( ( ( self", "max(((self"),
        "the domain that lacks most is told as the best",
        ("scenarios/test_scenarios::test_scenario",),
    ),
    Defect(
        "slices-of-the-first-kind",
        "DomainSearch._members",
        swap("one . size * pick", "pick"),
        "slices count as one member",
        ("properties/test_topology::test_a_domain_is_found_exactly_if_one_exists",),
    ),
)
