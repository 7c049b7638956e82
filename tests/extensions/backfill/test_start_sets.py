"""Shadow starts of gangs in topology domains: the planned domain, and changes of it."""

from extensions.backfill.test_shadows import at
from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.backfill.start_sets import RoomInTime
from licorne_core.messages.commands import Command, NodeAction, Tick
from licorne_core.values.ids import NodeId, PartitionName
from licorne_core.values.slices import Tuning
from licorne_core.values.tags import RUNTIME
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import START, Driver, placed

EASY = "{backfill: easy, topology.levels: 'zone, rack', topology.swap-seconds: '60'}"
DEFAULT = PartitionName("[rm1]default")


def cluster(tuning: Tuning | None = None, backfill: str = "easy", **racks: list[int]) -> Driver:
    """Racks of nodes with one gpu, each in use for a number of seconds; 0 for a free one.

    The first letter of a rack is its zone.
    """
    driver = Driver(tuning=tuning)
    driver.do(
        register(config("[{name: a}]", properties=EASY.replace("easy", backfill))),
        apps(app("runs", "root.a")),
    )
    for rack, ends in racks.items():
        attributes = {"zone": rack[0], "rack": rack}
        driver.do(nodes(*(node(f"{rack}-{n}", attributes=attributes, gpu=1) for n in range(len(ends)))))
        driver.do(
            asks(
                *(
                    ask("runs", f"{rack}-{n}", gpu=1, on_node=f"{rack}-{n}", created=START, tags=told(end))
                    for n, end in enumerate(ends)
                    if end
                )
            )
        )
    return driver


def told(seconds: int) -> dict[str, str]:
    """Tags of an ask with this declared runtime."""
    return {RUNTIME: str(seconds)}


def member(key: str, group: str = "g", priority: int = 0) -> Command:
    """An ask for another placeholder of the gang."""
    return asks(ask("job", key, placeholder=True, group=group, gpu=1, priority=priority))


def gang(driver: Driver, members: int, **tags: str) -> list[tuple[str, str, str]]:
    """Submit a gang of members of one gpu each; return its placed members."""
    named = {f"licorne/{name}": value for name, value in tags.items()}
    wanted = [ask("job", f"p{number}", placeholder=True, group="g", gpu=1) for number in range(members)]
    new = app("job", "root.a", gang={"gpu": members}, tags=named)
    return placed(driver.do(apps(new), asks(*wanted)))


def starts(driver: Driver) -> list[tuple[float, list[str]]]:
    """The shadow starts: seconds after the start of the test, and the sorted nodes of the members."""
    return [
        (one.start - START, sorted(node.node_id for _, node in one.members))
        for one in starts_of(driver.partition).shadows
    ]


def test_a_gang_is_planned_in_the_domain_with_the_earliest_room() -> None:
    """Small jobs pass the gang if they end in time or use other domains; all members start as published."""
    driver = cluster(r1=[90, 10, 20], r2=[30, 50, 40], r3=[0, 0])
    assert gang(driver, 3, topology="required=rack", runtime="30") == []
    assert starts(driver) == [(50.0, ["r2-0", "r2-1", "r2-2"])]
    (entry,) = driver.views.listed("calendar", DEFAULT)
    assert (entry.app_id, entry.start.starts_at, entry.asks, entry.nodes) == ("job", START + 50, 3, 3)
    driver.do(apps(app("small", "root.a")))
    at(driver, 30.0)
    long = [ask("small", f"long{number}", gpu=1, tags=told(21)) for number in range(4)]
    effects = driver.do(
        releases(release("runs", "r2-0"), release("runs", "r1-1"), release("runs", "r1-2")), asks(*long)
    )
    assert {node_id for _, _, node_id in placed(effects)} == {"r1-1", "r1-2", "r3-0", "r3-1"}
    effects = driver.do(asks(ask("small", "short", gpu=1, tags=told(20))))
    assert placed(effects) == [("small", "short", "r2-0")]
    at(driver, 50.0)
    over = [release("small", "short"), release("runs", "r2-1"), release("runs", "r2-2")]
    assert sorted(node_id for _, _, node_id in placed(driver.do(releases(*over)))) == ["r2-0", "r2-1", "r2-2"]


def test_of_domains_with_room_at_the_same_time_the_smallest_is_held() -> None:
    """The larger rack remains free for a larger gang, as for a gang that starts at once."""
    driver = cluster(r1=[50, 50, 50], r2=[50, 50])
    gang(driver, 2, topology="required=rack")
    assert starts(driver) == [(50.0, ["r2-0", "r2-1"])]
    driver = cluster()
    for rack, gpus in (("r1", 3), ("r2", 2)):
        driver.do(nodes(node(f"{rack}-0", attributes={"zone": "r", "rack": rack}, gpu=gpus)))
        driver.do(asks(ask("runs", rack, gpu=gpus, on_node=f"{rack}-0", created=START, tags=told(50))))
    gang(driver, 2, topology="required=rack")
    assert starts(driver) == [(50.0, ["r2-0", "r2-0"])]


def test_two_gangs_do_not_hold_the_same_room() -> None:
    """A later gang is planned in another rack, or in the same rack after the end of the first gang."""
    for last, expected in ((60, (60.0, ["r2-0"])), (90, (80.0, ["r1-0"]))):
        driver = cluster(backfill="conservative", r1=[50], r2=[last])
        gang(driver, 1, topology="required=rack", runtime="30")
        tags = {"licorne/topology": "required=rack"}
        driver.do(apps(app("later", "root.a", gang={"gpu": 1}, tags=tags)))
        driver.do(asks(ask("later", "l", placeholder=True, group="g", gpu=1)))
        assert starts(driver) == [(50.0, ["r1-0"]), expected]


def test_a_preferred_level_does_not_delay_a_start() -> None:
    """The earliest start in any domain is published, in the narrowest domain with room at that time."""
    driver = cluster(r1=[20, 90], r2=[20, 90], s1=[30, 30])
    gang(driver, 2, topology="preferred=rack")
    assert starts(driver) == [(20.0, ["r1-0", "r2-0"])]
    driver = cluster(r1=[20, 90], s1=[20, 20])
    gang(driver, 2, topology="preferred=rack")
    assert starts(driver) == [(20.0, ["s1-0", "s1-1"])]


def test_each_slice_is_planned_in_one_rack() -> None:
    """A slice waits for a rack with room, even if single nodes are free earlier."""
    driver = cluster(r1=[10, 20], r2=[10, 40], r3=[10, 90])
    gang(driver, 3, slice="size=2,level=rack")
    assert starts(driver) == [(20.0, ["r1-0", "r1-1", "r2-0"])]


def test_more_members_of_a_gang_are_planned_in_its_domain() -> None:
    """Running members determine the domain, even if another one would be free earlier."""
    driver = cluster(r1=[0, 50], r2=[20])
    assert gang(driver, 1, topology="required=rack") == [("job", "p0", "r1-0")]
    driver.do(member("more"))
    assert starts(driver) == [(50.0, ["r1-1"])]


def test_the_minimum_of_an_elastic_gang_is_planned_in_a_domain() -> None:
    """Asks beyond the minimum hold no start."""
    driver = cluster(r1=[10, 90], r2=[20, 30], r3=[15])
    tags = {"licorne/gang-min": "2", "licorne/gang-max": "3", "licorne/topology": "required=rack"}
    driver.do(apps(app("job", "root.a", tags=tags)))
    driver.do(asks(*(ask("job", f"m{number}", group="g", gpu=1) for number in range(3))))
    assert starts(driver) == [(30.0, ["r2-0", "r2-1"])]


def test_a_late_member_of_higher_priority_joins_the_start_of_its_gang() -> None:
    """A late member does not make a second start: the one start of the gang is planned for all members."""
    driver = cluster(r1=[10, 20, 30])
    gang(driver, 2, topology="required=rack")
    assert starts(driver) == [(20.0, ["r1-0", "r1-1"])]
    driver.do(member("urgent", "h", priority=9))
    assert starts(driver) == [(30.0, ["r1-0", "r1-1", "r1-2"])]


def test_a_gang_is_planned_again_when_its_level_is_removed_or_added() -> None:
    """Without its required level a gang holds no start; after a reload with that level it holds one again."""
    driver = cluster(r1=[10, 20])
    gang(driver, 2, topology="required=rack")
    other = EASY.replace("rack", "pod")
    driver.do(reload(config("[{name: a}]", properties=other)))
    driver.wait(0.5)
    assert starts(driver) == []
    driver.do(reload(config("[{name: a}]", properties=EASY)))
    at(driver, 16.0)
    assert starts(driver) == [(20.0, ["r1-0", "r1-1"])]


def test_a_gang_is_planned_again_when_a_member_is_replayed_elsewhere() -> None:
    """A member that the RM replays in another domain moves the start of the other members there."""
    driver = cluster(r1=[10, 20], r2=[0, 40, 50])
    gang(driver, 2, topology="required=rack")
    assert starts(driver) == [(20.0, ["r1-0", "r1-1"])]
    driver.do(asks(ask("job", "back", group="g", gpu=1, on_node="r2-0", created=START)))
    assert starts(driver) == [(50.0, ["r2-1", "r2-2"])]


def test_an_end_during_the_search_for_a_start_counts() -> None:
    """If an allocation ends early during a search over several turns, the earliest start is found."""
    for turns in range(100):
        driver = cluster(Tuning(fill_work=1), r1=[20, 40], r2=[10, 30])
        driver.send(apps(app("job", "root.a", gang={"gpu": 2}, tags={"licorne/topology": "required=rack"})))
        driver.send(member("p0"))
        driver.send(member("p1"))
        for _ in range(turns):
            driver.send(Tick(decisions=1))
        if starts(driver):
            break
        driver.do(releases(release("runs", "r1-1")))
        assert starts(driver) == [(20.0, ["r1-0", "r1-1"])], turns
    assert 4 < turns < 99


def test_a_lost_member_waits_without_a_start() -> None:
    """The room kept for a lost member in its domain is not planned for others."""
    driver = cluster(r1=[0, 0, 30, 90])
    assert len(gang(driver, 2, topology="required=rack")) == 2
    driver.do(nodes(node("r1-1", NodeAction.DECOMISSION)))
    driver.do(member("again"))
    assert starts(driver) == []
    kept = driver.partition.nodes.by_id[NodeId("r1-2")]
    driver.do(releases(release("job", "again"), release("runs", "r1-2")))
    assert kept.kept == {"gpu": 1}
    driver.do(apps(app("late", "root.a")), asks(ask("late", "k", gpu=1)))
    assert starts(driver) == [(90.0, ["r1-3"])]


def test_a_gang_holds_a_start_after_the_place_of_its_lost_member_has_ended() -> None:
    """While room is kept for a lost member, the gang holds no start; afterwards its waiting members do."""
    driver = cluster(backfill="easy, reserve.after: 10s", r1=[0, 0], r2=[500, 500])
    gang(driver, 2, topology="preferred=rack", runtime="1000")
    driver.do(member("p2"))
    driver.do(member("p3"))
    at(driver, 5)
    driver.do(nodes(node("r1-1", NodeAction.DECOMISSION)))
    at(driver, 60)
    assert starts(driver) == []
    at(driver, 70)
    assert starts(driver) == [(500.0, ["r2-0", "r2-1"])]


def test_room_lost_before_a_time_does_not_count() -> None:
    """Slots lost again before the given time do not count; the slots gained last are lost first."""
    room = RoomInTime([(0.0, [2]), (10.0, [5]), (20.0, [1]), (30.0, [2])], free={}, ends=(), until=40.0)
    assert room.lasting(0, 15.0) == [(0.0, 2), (10.0, 3)]
    assert room.lasting(0, 20.0) == [(0.0, 1)]
    assert room.lasting(0, 30.0) == [(0.0, 1), (30.0, 1)]
