"""Details on the page: objects, searches, and history."""

from dataclasses import replace

from licorne_core.config import load
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.http.ui import page
from licorne_server.store.configurations.revisions import Revisions, Source
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, release, releases, victim
from support.server.http_site import API, MINE, Site


def tell(site: Site) -> None:
    """Record all events in the RM's log."""
    site.events.begin(RmId(RM))
    site.events.get(RM).append(tuple(site.driver.facts))


async def test_a_waiting_ask_is_explained(town: Site) -> None:
    """The checks are in order with their operands; the first failing one blocks the ask."""
    found = await town.get(f"{MINE}/application/waiter/explain?key=w2")
    assert (found["verdict"], found["allocationKey"]) == ("pending", "w2")
    blocker = next(check for check in found["checks"] if not check["passed"])
    assert (blocker["kind"], blocker["subject"]) == ("queue", "root.full")
    assert blocker["code"] == "QUEUE_MAX_EXCEEDED"
    operands = [int(blocker[name]["vcore"]) for name in ("requested", "used", "limit")]
    assert operands == [1000, 2000, 2000]
    assert blocker["message"] == found["summary"]


async def test_a_gang_shows_its_task_groups(town: Site) -> None:
    """The numbers of placeholders: present, replaced and timed out."""
    town.driver.do(
        apps(app("gang", "root.runs", gang={"vcore": 2000}, style="Hard", timeout=100)),
        asks(*(ask("gang", f"p{n}", group="g", placeholder=True, vcore=1000) for n in range(2))),
    )
    found = await town.get(f"{MINE}/application/gang")
    assert (found["gangStyle"], found["placeholderCount"]) == ("Hard", 2)
    assert found["taskGroups"][0] == {
        "name": "g",
        "count": 2,
        "replaced": 0,
        "timedOut": 0,
        "size": {"vcore": 1000},
    }
    assert found["elastic"] is None
    town.driver.do(apps(app("grows", "root.runs", tags={"licorne/gang-min": "3"})))
    grows = await town.get(f"{MINE}/application/grows")
    assert grows["elastic"] == {"size": 0, "leaving": 0, "min": 3, "max": 0, "step": 1}


async def test_the_heat_map_has_every_node_in_short(town: Site) -> None:
    """Each node has id, state, and the used part of each resource, in thousandths."""
    town.driver.do(nodes(node("small", memory=50)))
    found = await town.get(f"{MINE}/heat")
    assert found["resources"][:2] == ["vcore", "memory"]
    rows = {row[0]: row[1:] for row in found["nodes"]}
    assert set(rows) == {"n1", "n2", "small"}
    assert sorted(row[1] for row in (rows["n1"], rows["n2"])) == [125, 250]
    assert rows["small"][:3] == [0, -1, 0]


async def test_the_heat_map_is_made_once_for_all(town: Site) -> None:
    """Within the time that it is fresh, the next viewer gets the same."""
    first = await town.get(f"{MINE}/heat")
    town.driver.do(nodes(node("late", vcore=1000)))
    assert await town.get(f"{MINE}/heat") == first


async def test_the_configuration_is_shown_as_it_was_written(town: Site) -> None:
    """With comments and all, as it is compared with another text."""
    found = await town.get(f"{API}/config?rm={RM}")
    assert found["text"] == town.driver.views.rm(RM).config
    assert found["checksum"]
    assert (await town.refused(f"{API}/config?rm=nobody"))["status_code"] == 404


async def test_things_are_found_by_a_part_of_their_names(town: Site) -> None:
    """Queues, applications, nodes and users, in any case."""
    found = await town.get(f"{API}/search?q=N1")
    [hit] = found["hits"]
    assert (hit["kind"], hit["partition"], hit["name"], found["complete"]) == (
        "node",
        f"[{RM}]default",
        "n1",
        True,
    )
    kinds = {hit["kind"] for hit in (await town.get(f"{API}/search?q=n"))["hits"]}
    assert kinds == {"application", "node", "queue", "user"}
    assert (await town.refused(f"{API}/search?q=%20"))["status_code"] == 400


async def test_hits_say_what_tells_them_apart(town: Site) -> None:
    """State, queue and user; an application that has ended has its plain id, and the time of its end."""
    town.driver.do(releases(release("runner", "r1")))
    town.driver.wait(60)
    town.driver.do(apps(app("runner", "root.full", user="cat")))
    hits = (await town.get(f"{API}/search?q=runner"))["hits"]
    assert [(hit["id"], hit["state"], hit["queue"], hit["user"]) for hit in hits] == [
        ("runner", "New", "root.full", "cat"),
        ("runner", "Completed", "root.runs", "ann"),
    ]
    assert hits[0]["finished"] == 0 < hits[1]["finished"]
    assert hits[1]["name"] != "runner"


async def test_nodes_are_grouped_by_an_attribute(town: Site) -> None:
    """The names offered are those that most nodes have with few values; others can be used too."""
    racks = ({"rack": "r2", "host": "a"}, {"rack": "r1", "host": "a"}, {"rack": "r2", "host": "a"})
    town.driver.do(nodes(*(node(f"x{n}", attributes=rack, vcore=1) for n, rack in enumerate(racks))))
    found = await town.get(f"{MINE}/heat?by=rack")
    assert found["attributes"] == ["rack"]
    groups = {row[0]: found["groups"][row[-1]] for row in found["nodes"]}
    assert groups == {"n1": "", "n2": "", "x0": "r2", "x1": "r1", "x2": "r2"}
    plain = await town.get(f"{MINE}/heat")
    assert (plain["attributes"], plain["groups"]) == (["rack"], [])
    assert {len(row) for row in plain["nodes"]} == {2 + len(plain["resources"])}


async def test_a_node_shows_what_is_on_it(town: Site) -> None:
    """Allocations have queue, user and size, in an order of the viewer's choice; others are foreign."""
    town.driver.do(
        asks(ask("runner", "r2", vcore=3000, priority=5)),
        asks(ask("", "pod", vcore=100, on_node="n1", tags={"foreign": "default"})),
    )
    rows = []
    for name in ("n1", "n2"):
        rows += (await town.get(f"{MINE}/node/{name}/allocations?sort=-resources.vcore"))["rows"]
    found = {row["key"]: row for row in rows}
    assert set(found) == {"r1", "r2", "w1", "pod"}
    assert (found["r2"]["queue"], found["r2"]["user"], found["r2"]["priority"]) == ("root.runs", "ann", 5)
    assert (found["pod"]["foreign"], found["pod"]["application"], found["r2"]["foreign"]) == (True, "", False)
    assert found["w1"]["since"] > 0
    assert (await town.refused(f"{MINE}/node/none/allocations"))["status_code"] == 404


async def test_victims_are_summed_up_by_who_lost_to_whom(town: Site) -> None:
    """The rows have their amounts, and their lost work."""
    ledger = town.driver.scheduler.partitions[PartitionName(f"[{RM}]default")].ledger
    ledger.note(replace(victim("a", time=100.0), ran=1800.0))
    ledger.note(replace(victim("b", time=200.0), ran=1800.0))
    ledger.note(victim("c", rule=PreemptionRule.QUOTA, time=300.0))
    found = await town.get(f"{MINE}/preemptions/sums")
    assert found["since"] == 100_000
    first, second = found["rows"]
    assert first == {
        "queue": "root.low",
        "forQueue": "root.high",
        "victims": 2,
        "resources": {"vcore": 14},
        "lostHours": {"vcore": 7.0},
    }
    assert (second["forQueue"], second["victims"]) == ("root", 1)


async def test_earlier_configurations_are_shown(town: Site) -> None:
    """The latest is first, with author and reason; the text of one is found by its number."""
    text = config("[{name: old}]")
    first = Revisions(rm_id=RmId(RM)).adding(load(text), Source.REGISTRATION, time=5_000_000, by="")
    both = first.adding(load(config("[]")), Source.OPERATOR, time=9_000_000, by="bob", comment="more")
    town.revisions[RM] = both
    rows = await town.get(f"{API}/config/revisions?rm={RM}")
    shown = [(row["revision"], row["time"], row["by"], row["message"], row["current"]) for row in rows]
    assert shown == [(2, 9, "bob", "more", True), (1, 5, "", "", False)]
    found = await town.get(f"{API}/config/revision?rm={RM}&revision=1")
    assert (found["text"], found["checksum"]) == (text, rows[1]["checksum"])
    assert (await town.get(f"{API}/config/revision?rm={RM}"))["revision"] == 2
    for path in (f"revision?rm={RM}&revision=7", "revisions?rm=nobody"):
        assert (await town.refused(f"{API}/config/{path}"))["status_code"] == 404


async def test_a_search_says_when_it_is_not_complete(town: Site) -> None:
    """Both the hits of a kind and the examined names are bounded."""
    town.driver.do(apps(*(app(f"many-{n:02}", "root.runs") for n in range(page.HITS + 1))))
    found = await town.get(f"{API}/search?q=many")
    assert len(found["hits"]) == page.HITS
    assert not found["complete"]


async def test_events_come_with_their_ids(town: Site) -> None:
    """A reader continues from `next`, and no event is repeated."""
    town.events.begin(RmId(RM))
    answer = await town.get(f"{API}/events?rm={RM}")
    assert (answer["rows"], answer["next"], answer["behind"]) == ([], 0, 0)
    tell(town)
    first = await town.get(f"{API}/events?rm={RM}&limit=2")
    assert [row["id"] for row in first["rows"]] == [0, 1]
    rest = await town.get(f"{API}/events?rm={RM}&start={first['next']}&limit=500")
    assert rest["rows"][0]["id"] == 2
    assert rest["next"] == rest["behind"] == rest["rows"][-1]["id"] + 1


async def test_events_are_picked(town: Site) -> None:
    """The filters are the type of object, and a part of ids, message or change."""
    tell(town)
    found = await town.get(f"{API}/events?rm={RM}&type=node")
    assert {row["type"] for row in found["rows"]} == {"NODE"}
    found = await town.get(f"{API}/events?rm={RM}&q=W1")
    assert found["rows"]
    assert all("w1" in f"{row['object']} {row['reference']}" for row in found["rows"])
    assert found["next"] == found["behind"], "what does not fit was looked at as well"
    refusal = await town.refused(f"{API}/events?rm={RM}&type=weather")
    assert "type: WEATHER is no kind of event" in refusal["message"]
