"""Gangs in topology domains: the choice of the domain, lost members, and checks by the RM."""

import pytest

from licorne_core.extensions.topology import NAME
from licorne_core.extensions.topology.extension import topology_of
from licorne_core.handlers.turn import LOOK_TIME
from licorne_core.messages.commands import (
    AnswerPredicates,
    Command,
    FailMode,
    NodeAction,
    NodeRefusal,
    PredicateAnswer,
    PredicatePolicy,
    Tick,
)
from licorne_core.messages.effects import AllocationsMade, Unfinished
from licorne_core.model.nodes.book import Packing
from licorne_core.scheduler import Scheduler
from licorne_core.scheduling.waiting.wakeups import MOST_SHORT_GANGS
from licorne_core.standard.predicates.owed import MAX_ASSUMED_IN_SILENCE
from licorne_core.standard.predicates.results import RETRY_TIME
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, NodeId, RmId
from licorne_core.values.tags import RUNTIME
from licorne_core.views.audit.invariants import check_partition
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
    remove_apps,
)
from support.core.driver import START, Driver, asked, placed

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {topology.levels: rack, topology.swap-seconds: "60"}
        queues: [{name: a}]
"""


def cluster(policy: PredicatePolicy | None = None, **racks: list[int]) -> Driver:
    """Racks of nodes with these numbers of GPUs and as much memory; the first letter of a rack is its row."""
    driver = Driver()
    driver.do(register(CONFIG, predicates=policy))
    for rack, sizes in racks.items():
        driver.do(
            nodes(
                *(
                    node(f"{rack}-{number}", attributes={"rack": rack, "row": rack[0]}, gpu=gpus, memory=gpus)
                    for number, gpus in enumerate(sizes)
                )
            )
        )
    return driver


def gang(
    driver: Driver, members: int, terms: str = "required=rack", predicate: str | None = None
) -> list[str]:
    """Submit a gang of members of one GPU each; return their nodes."""
    tags = {"licorne/topology": terms}
    asked_for = [
        ask("job", f"p{number}", placeholder=True, group="g", predicate=predicate, gpu=1)
        for number in range(members)
    ]
    effects = driver.do(apps(app("job", "root.a", gang={"gpu": members}, tags=tags)), asks(*asked_for))
    return [node_id for _, _, node_id in placed(effects)]


def test_the_smallest_fitting_domain_is_used() -> None:
    """Of the racks with enough slots the one with the fewest is used, whatever their names are."""
    driver = cluster(a=[4, 4], b=[2, 1], c=[1, 1], d=[2, 1])
    assert gang(driver, 3) == ["b-0", "b-0", "b-1"]


@pytest.mark.parametrize(
    ("steps", "members"),
    [
        ("a b c -a -b d e f g h", "cdefgh"),
        ("a b c -a -b a b -a -b a b d e f", "abcdef"),
        ("a:3 b -a c:3 d e", "bcde"),
        ("real a b c d e -a -b -c -d -e f g h i j k", "fghijk"),
        ("a b c -a -b c:4 d e", "cde"),
        ("a b c -a -b c:2 c d e f g h", "cdefgh"),
        ("full a b c d e f -a -b room", "cdef"),
        ("full a b c d e f -a -b g -c room", "defg"),
        ("full a:2 b:2 c:2 a room", "abc"),
        ("full a b c d e f -a -b -c -d -e -f g room h i j k l", "ghijkl"),
    ],
)
def test_a_gang_waits_until_all_members_were_asked_for_at_a_time(steps: str, members: str) -> None:
    """It announces 6. Members that are withdrawn and asked for again, or in another size, count once."""
    driver = cluster(a=[] if steps.startswith("full") else [4, 4])
    driver.do(apps(app("job", "root.a", gang={"gpu": 6}, tags={"licorne/topology": "preferred=rack"})))
    made = ""
    for step in steps.split():
        assert not made, step
        key, _, size = step.partition(":")
        if step == "room":
            command: Command = nodes(node("a-0", attributes={"rack": "a"}, gpu=9))
        elif step.startswith("-"):
            command = releases(release("job", step[1:]))
        else:
            is_real = step in ("real", "full")
            gpu = 99 if is_real else int(size or 1)
            command = asks(ask("job", key, placeholder=not is_real, group="" if is_real else "g", gpu=gpu))
        made = "".join(sorted(key for _, key, _ in placed(driver.do(command))))
    assert made == members


def test_a_large_gang_takes_few_turns() -> None:
    """A thousand members on ten thousand nodes are placed in 5 to 20 turns."""
    core, made, turns = Scheduler(), 0, 0
    sizes = [node(f"n{n:05}", attributes={"rack": f"r{n // 100}"}, gpu=1 + n // 9_000) for n in range(10_000)]
    members = [ask("job", f"p{n}", placeholder=True, group="g", gpu=1) for n in range(1_000)]
    tags = {"licorne/topology": "preferred=rack"}
    todo: list[Command] = [
        register(CONFIG),
        nodes(*sizes),
        apps(app("job", "root.a", gang={"gpu": 1_000}, tags=tags)),
        asks(*members),
    ]
    while todo or ((due := core.next_deadline()) is not None and due <= START):
        turns += not todo
        for effect in core.handle(todo.pop(0) if todo else Tick(), START):
            if isinstance(effect, Unfinished):
                todo.insert(0, effect.rest)
            elif isinstance(effect, AllocationsMade):
                made += len(effect.allocations)
    assert made == len(members)
    assert 5 <= turns <= 20


def test_domains_are_ordered_by_the_slots_of_all_sizes() -> None:
    """A domain's slots are counted separately for each size of members, and added."""
    driver = cluster()
    driver.do(
        nodes(
            node("a-0", attributes={"rack": "a"}, gpu=2, memory=9),
            node("b-0", attributes={"rack": "b"}, gpu=3, memory=2),
        )
    )
    tags = {"licorne/topology": "required=rack"}
    wanted = [
        ask("job", "p0", placeholder=True, group="g", gpu=1),
        ask("job", "p1", placeholder=True, group="h", memory=1),
    ]
    effects = driver.do(apps(app("job", "root.a", gang={"gpu": 1, "memory": 1}, tags=tags)), asks(*wanted))
    assert {node_id for _, _, node_id in placed(effects)} == {"b-0"}


def test_a_preferred_level_may_be_exceeded() -> None:
    """A gang that prefers a rack is placed in a wider domain when no rack has room for it."""
    driver = cluster(a=[2], b=[2])
    assert gang(driver, 3, "preferred=rack") == ["a-0", "a-0", "b-0"]


def test_a_gang_uses_the_levels_of_a_reload() -> None:
    """After a reload a gang is placed in a domain of a level of the new configuration."""
    driver = cluster(a1=[1], a2=[1], b1=[1])
    assert gang(driver, 2) == []
    driver.do(remove_apps("job"), reload(CONFIG.replace("levels: rack", "levels: row")))
    assert gang(driver, 2, "required=row") == ["a1-0", "a2-0"]


def test_the_room_of_a_lost_member_is_reserved_for_a_limited_time() -> None:
    """The room of a lost member is reserved for topology.swap-seconds, and then any ask may use it."""
    driver = cluster(a=[1, 1])
    assert gang(driver, 2) == ["a-0", "a-1"]
    driver.do(nodes(node("a-1", NodeAction.DECOMISSION)))
    driver.do(nodes(node("a-2", attributes={"rack": "a"}, gpu=1, memory=1)))
    driver.do(apps(app("other", "root.a")), asks(ask("other", "o", gpu=1)))
    assert placed(driver.wait(59.0)) == []
    assert placed(driver.wait(2.0)) == [("other", "o", "a-2")]


def test_a_lost_member_waits_for_a_required_domain() -> None:
    """A lost member is placed outside its domain only if the domain is preferred, not required."""
    for terms, found in (("required=rack", []), ("preferred=rack", ["b-0"])):
        driver = cluster(a=[1, 1], b=[1])
        assert gang(driver, 2, terms) == ["a-0", "a-1"]
        driver.do(nodes(node("a-1", NodeAction.DECOMISSION)))
        effects = driver.do(asks(ask("job", "again", placeholder=True, group="g", gpu=1)))
        assert [node_id for _, _, node_id in placed(effects)] == found


def test_a_member_that_ends_on_a_live_node_reserves_nothing() -> None:
    """Room is reserved only for members that are lost with their node."""
    driver = cluster(a=[1, 1])
    gang(driver, 2)
    driver.do(apps(app("other", "root.a")), asks(ask("other", "o", gpu=1)))
    effects = driver.do(releases(release("job", "p1")))
    assert placed(effects) == [("other", "o", "a-1")]


def test_a_refusal_of_a_node_moves_the_whole_gang() -> None:
    """The RM is asked about all nodes at once; after a refusal the whole gang moves to another rack."""
    driver = cluster(PredicatePolicy(deadline=5.0, fail_mode=FailMode.CLOSED), a=[1, 1], b=[1, 1, 1])
    assert gang(driver, 2, predicate="picky") == []
    (check,) = asked_again(driver, refused="a-1")
    assert placed(driver.do(answer(check))) == [("job", "p0", "b-0"), ("job", "p1", "b-1")]


def asked_again(driver: Driver, refused: str) -> list[int]:
    """Let the RM refuse a node of the first check; return the numbers of the following checks."""
    effects = driver.do(answer(1, refused))
    assert placed(effects) == []
    checks = asked(effects)
    assert [(one.nodes, one.allocate) for one in checks] == [(["b-0", "b-1"], False)]
    return [one.check for one in checks]


def answer(check: int, *refused: str) -> AnswerPredicates:
    """Let the RM refuse these nodes of a check, and no others."""
    refusals = [NodeRefusal(node_id=NodeId(node_id), reason="taint") for node_id in refused]
    return AnswerPredicates(rm_id=RmId("rm1"), answers=[PredicateAnswer(check, refusals)])


def test_a_lost_member_of_a_slice_waits_for_the_domain_of_the_slice() -> None:
    """Even after the time of the reserved room, a lost member is placed only in the domain of its slice."""
    for wait in (1.0, 61.0):
        driver = cluster(a=[1, 1], b=[1])
        assert gang_of_slices(driver) == ["a-0", "a-1"]
        driver.do(nodes(node("a-1", NodeAction.DECOMISSION)))
        driver.wait(wait)
        assert placed(driver.do(asks(ask("job", "again", placeholder=True, group="g", gpu=1)))) == []


def gang_of_slices(driver: Driver) -> list[str]:
    """Submit a gang of one slice of two members; return its nodes."""
    tags = {"licorne/slice": "size=2,level=rack"}
    members = [ask("job", f"p{number}", placeholder=True, group="g", gpu=1) for number in range(2)]
    effects = driver.do(apps(app("job", "root.a", gang={"gpu": 2}, tags=tags)), asks(*members))
    return [node_id for _, _, node_id in placed(effects)]


def test_the_room_of_a_lost_member_is_reserved_where_the_rm_accepts_it() -> None:
    """The RM is asked about the node that would be reserved; after a refusal another node is reserved."""
    policy = PredicatePolicy(deadline=5.0, fail_mode=FailMode.CLOSED)
    driver = cluster(policy, a=[1, 1, 1, 1])
    gang(driver, 2, predicate="picky")
    driver.do(answer(1))
    (check,) = asked(driver.do(nodes(node("a-0", NodeAction.DECOMISSION))))
    assert (check.key, check.nodes, check.allocate) == ("p1", ["a-2"], False)
    (check,) = asked(driver.do(answer(check.check, "a-2")))
    assert check.nodes == ["a-3"]
    driver.do(answer(check.check), apps(app("other", "root.a")))
    effects = driver.do(asks(*(ask("other", f"o{number}", gpu=1) for number in range(2))))
    assert placed(effects) == [("other", "o0", "a-2")]


POLICY = PredicatePolicy(deadline=5.0, fail_mode=FailMode.CLOSED)


def test_lost_members_of_a_class_share_one_check() -> None:
    """For four lost members the RM is asked about a node once, and again after a change of the node."""
    driver = cluster(POLICY, a=[4, 2, 8, 8])
    gang(driver, 6, predicate="picky")
    driver.do(answer(1))
    (check,) = asked(driver.do(nodes(node("a-0", NodeAction.DECOMISSION))))
    assert check.nodes == ["a-2"]
    larger = node("a-2", NodeAction.UPDATE, gpu=9, memory=9)
    (again,) = asked(driver.do(answer(check.check), nodes(larger)))
    assert again.nodes == ["a-2"]
    assert asked(driver.do(answer(again.check), nodes(node("b-0", gpu=1)))) == []


def test_a_silent_rm_is_asked_again_about_the_same_node() -> None:
    """If the RM misses the deadline, the room stays reserved, and the RM is asked about the node again."""
    driver = cluster(POLICY, a=[1, 1, 1, 1])
    gang(driver, 2, predicate="picky")
    driver.do(answer(1))
    effects = driver.do(nodes(node("a-0", NodeAction.DECOMISSION)))
    for _ in range(3):
        (check,) = asked(effects)
        assert check.nodes == ["a-2"]
        driver.wait(POLICY.deadline - 0.1)
        assert asked(driver.wait(0.2)) == []
        effects = driver.wait(RETRY_TIME)


def test_a_place_is_checked_once_the_rm_has_answered_other_checks() -> None:
    """While too many checks are open, the check of the room for a lost member is delayed."""
    driver = cluster(POLICY, a=[1, 1, 1], b=[2 * (MAX_ASSUMED_IN_SILENCE + 1)])
    gang(driver, 2, predicate="picky")
    driver.do(answer(1), apps(app("other", "root.a")))
    driver.do(asks(ask("other", "silent", predicate="silent", memory=2)))
    driver.wait(POLICY.deadline + 0.1)
    many = range(MAX_ASSUMED_IN_SILENCE)
    checks = asked(driver.do(asks(*(ask("other", f"o{n}", predicate="many", memory=2) for n in many))))
    assert asked(driver.do(nodes(node("a-0", NodeAction.DECOMISSION)))) == []
    told = asked(driver.do(answer(checks[0].check)))
    assert ("p1", ["a-2"]) in [(check.key, check.nodes) for check in told]


def test_an_inconsistent_place_of_a_lost_member_is_detected() -> None:
    """The recount compares the places of lost members with applications, deadlines and interests."""
    for slip in range(4):
        driver = cluster(a=[1, 1])
        gang(driver, 2)
        driver.do(nodes(node("a-1", NodeAction.DECOMISSION)))
        partition = driver.partition
        own, app_of_gang = partition.points.named(NAME), partition.applications[AppId("job")]
        own.recount(partition.applications, settled=True)
        (place,) = topology_of(partition).places.present
        if slip == 0:
            app_of_gang.gang.rooms.clear()
        elif slip == 1:
            place.is_kept = False
        elif slip == 2:
            partition.claims.rooms.clear()
        else:
            app_of_gang.interests = 0
        with pytest.raises(InvariantBroken):
            own.recount(partition.applications, settled=True)


@pytest.mark.parametrize("used", [2, 5], ids=["one in each rack", "too little left in all"])
def test_nodes_are_packed_while_a_gang_waits_for_a_domain(used: int) -> None:
    """Nodes are packed while racks or cluster lack room for a gang, and no more 20 s after its end."""
    driver = cluster(a=[2, 2], b=[2, 2])
    places = ["a-0", "b-0", "a-1", "b-1", "a-0"][:used]
    driver.do(apps(app("other", "root.a")))
    driver.do(asks(*(ask("other", f"o{number}", on_node=on, gpu=1) for number, on in enumerate(places))))
    assert gang(driver, 4) == []
    for seconds in (0, 5 * LOOK_TIME):
        driver.wait(seconds)
        assert driver.partition.nodes.order.packs == Packing((("rack",),), ("gpu",))
    short = driver.partition.wakeups.short_gangs
    for group in list(short):
        short[group] = Packing((("row",),))
        with pytest.raises(InvariantBroken, match="W5: "):
            check_partition(driver.partition)
    driver.do(releases(release("job")))
    driver.wait(2 * LOOK_TIME)
    assert not driver.partition.nodes.order.packs
    assert not driver.partition.wakeups.short_gangs


@pytest.mark.parametrize(
    ("terms", "members", "packs", "said"),
    [
        ("required=rack", 4, Packing((("row", "rack"),), ("gpu",)), None),
        ("required=rack", 5, None, "every rack: a/a1, the best of 3, holds 4 of its 5 members"),
        ("preferred=rack", 8, Packing((("row",),), ("gpu",)), None),
        ("preferred=rack", 9, Packing(), None),
        ("required=row", 9, None, "every row: a, the best of 2, holds 8 of its 9 members"),
        ("preferred=rack", 12, None, "the partition: it holds 11 of its 12 members"),
    ],
)
def test_only_domains_that_would_hold_a_gang_are_packed(
    terms: str, members: int, packs: Packing | None, said: str | None
) -> None:
    """Only domains of the narrowest level are packed, and none for a gang that is larger than each."""
    driver = cluster(a1=[2, 2], a2=[2, 2], b1=[2, 1])
    driver.do(reload(CONFIG.replace("levels: rack", 'levels: "row,rack"')))
    driver.do(apps(app("other", "root.a")))
    driver.do(asks(*(ask("other", rack, on_node=f"{rack}-0", gpu=1) for rack in ("a1", "a2", "b1"))))
    driver.do(asks(ask("other", "last", on_node="b1-0", gpu=1)))
    assert gang(driver, members, terms) == []
    driver.wait(LOOK_TIME)
    assert driver.partition.nodes.order.packs == packs
    told = [check.message() for check in driver.explain("job", "p0").checks if not check.passed]
    larger = [text for text in told if text.startswith("it is larger than ")]
    assert larger == ([] if said is None else [f"it is larger than {said} if empty"])


@pytest.mark.parametrize("mode", ["off", "easy"])
@pytest.mark.parametrize("terms", ["required=rack", "required=rack slices"])
def test_a_gang_that_needs_more_than_every_domain_costs_little(terms: str, mode: str) -> None:
    """A rack has slots for each kind of members alone, and too few amounts for all: no packing is tried."""
    driver = cluster(a=[4] * 30, b=[4] * 10)
    driver.do(reload(CONFIG.replace("levels: rack", f"levels: rack, backfill: {mode}")))
    tags = {"licorne/topology": "required=rack", RUNTIME: "600"}
    if terms.endswith("slices"):
        tags["licorne/slice"] = "size=20,level=rack"
    sizes = [1] * 60 + [2] * 40
    members = [
        ask("job", f"p{number}", placeholder=True, group=f"g{size}", gpu=1, memory=size)
        for number, size in enumerate(sizes)
    ]
    driver.do(apps(app("job", "root.a", gang={"gpu": 100}, tags=tags)), asks(*members))
    told = [check.message() for check in driver.explain("job", "p0").checks if not check.passed]
    assert "it is larger than every rack: a, the best of 2, does not hold its members if empty" in told
    gangs, claims = driver.partition.cycle.gangs, driver.partition.check_context.claims
    assert gangs.work + gangs.sizes.work + claims.work < 10 * len(members)


def test_a_reload_of_the_levels_changes_the_explanation_of_a_gang() -> None:
    """A gang that is larger than every rack is explained so only while the partition has racks."""
    driver = cluster(a1=[2, 2], b1=[2])
    driver.do(apps(app("other", "root.a")), asks(ask("other", "runs", on_node="a1-0", gpu=1)))
    gang(driver, 5)
    for levels, text in (
        ("rack", "it is larger than every rack: a1, the best of 2, holds 4 of its 5 members if empty"),
        ("row", "the partition has no topology level rack"),
    ):
        driver.do(reload(CONFIG.replace("levels: rack", f"levels: {levels}")))
        driver.wait(2 * LOOK_TIME)
        assert text in [check.message() for check in driver.explain("job", "p0").checks if not check.passed]


@pytest.mark.parametrize("used", [1, 3], ids=["in racks", "in the cluster"])
def test_nodes_are_packed_only_while_the_waiting_gang_could_fit(used: int) -> None:
    """Nodes are packed only while the cluster, or its largest domain, would hold the waiting gang."""
    driver = cluster(a=[2, 2], b=[2])
    driver.do(apps(app("other", "root.a")))
    places = ["a-0", "b-0", "b-0"][:used]
    driver.do(asks(*(ask("other", f"o{number}", on_node=on, gpu=1) for number, on in enumerate(places))))
    assert gang(driver, 4) == []
    for action, packs in ((NodeAction.DRAIN_NODE, False), (NodeAction.DRAIN_TO_SCHEDULABLE, True)):
        driver.do(nodes(node("a-1", action)))
        driver.do(asks(ask("other", action.name, memory=1)))
        driver.wait(3 * LOOK_TIME)
        assert bool(driver.partition.nodes.order.packs) is packs


def test_a_lost_member_without_room_in_the_cluster_packs_nodes() -> None:
    """For a lost member, whose domain is determined, nodes are packed in the cluster and not by domain."""
    driver = cluster(a=[1, 1], b=[1])
    gang(driver, 2)
    driver.do(nodes(node("a-1", NodeAction.DECOMISSION)), apps(app("other", "root.a")))
    driver.do(asks(ask("other", "runs", gpu=1)))
    driver.do(asks(ask("job", "again", group="g", placeholder=True, gpu=1)))
    assert driver.explain("job", "again").verdict == "pending"
    driver.wait(0)
    assert driver.partition.nodes.order.packs == Packing()


def test_removed_gangs_leave_no_state() -> None:
    """State does not grow with the number of removed gangs while other gangs wait for the cluster."""
    driver = cluster(a=[2, 2])
    driver.do(apps(app("other", "root.a")), asks(ask("other", "runs", gpu=1)))
    for number in range(MOST_SHORT_GANGS + 8):
        name = f"waits-{number}"
        asked_for = [ask(name, f"p{member}", placeholder=True, group="g", gpu=1) for member in range(4)]
        driver.do(apps(app(name, "root.a", gang={"gpu": 4})), asks(*asked_for))
        if number >= MOST_SHORT_GANGS:
            driver.do(remove_apps(name))
    short = driver.partition.wakeups.short_gangs
    assert len(short) <= MOST_SHORT_GANGS
    assert {group.app.app_id for group in short} <= driver.partition.applications.keys()
