"""What the page shows of one thing, what it finds, and what happened."""

from licorne_core.messages.effects import Happened
from licorne_core.values.ids import RmId
from licorne_server.http.ui import page
from support.core.builders import RM, app, apps, ask, asks, node, nodes
from support.server.http_site import API, MINE, Site


def tell(site: Site) -> None:
    """Everything that has happened goes into the log of the RM."""
    site.events.begin(RmId(RM))
    site.events.add(Happened(rm_id=RmId(RM), facts=tuple(site.driver.facts)))


async def test_a_waiting_ask_is_explained(town: Site) -> None:
    """The checks come in their order with their operands; the first that fails stops it."""
    found = await town.get(f"{MINE}/application/waiter/explain?key=w2")
    assert (found["verdict"], found["allocationKey"]) == ("pending", "w2")
    blocker = next(check for check in found["checks"] if not check["passed"])
    assert (blocker["kind"], blocker["subject"]) == ("queue", "root.full")
    assert blocker["code"] == "QUEUE_MAX_EXCEEDED"
    operands = [int(blocker[name]["vcore"]) for name in ("requested", "used", "limit")]
    assert operands == [1000, 2000, 2000]
    assert blocker["message"] == found["summary"]


async def test_a_gang_shows_its_task_groups(town: Site) -> None:
    """How many placeholders there are, were replaced and have timed out."""
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


async def test_the_heat_map_has_every_node_in_short(town: Site) -> None:
    """Its id, its state, and how much of each resource is used, in thousandths."""
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
    assert found == {
        "hits": [{"kind": "node", "partition": f"[{RM}]default", "name": "n1"}],
        "complete": True,
    }
    kinds = {hit["kind"] for hit in (await town.get(f"{API}/search?q=n"))["hits"]}
    assert kinds == {"application", "node", "queue", "user"}
    assert (await town.refused(f"{API}/search?q=%20"))["status_code"] == 400


async def test_a_search_says_when_it_is_not_complete(town: Site) -> None:
    """Both the hits of a kind and the names that are looked at are bounded."""
    town.driver.do(apps(*(app(f"many-{n:02}", "root.runs") for n in range(page.HITS + 1))))
    found = await town.get(f"{API}/search?q=many")
    assert len(found["hits"]) == page.HITS
    assert not found["complete"]


async def test_events_come_with_their_ids(town: Site) -> None:
    """A reader goes on from `next`, and nothing is told twice."""
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
    """By the kind of thing, and by a part of ids, message or what happened."""
    tell(town)
    found = await town.get(f"{API}/events?rm={RM}&type=node")
    assert {row["type"] for row in found["rows"]} == {"NODE"}
    found = await town.get(f"{API}/events?rm={RM}&q=W1")
    assert found["rows"]
    assert all("w1" in f"{row['object']} {row['reference']}" for row in found["rows"])
    assert found["next"] == found["behind"], "what does not fit was looked at as well"
    refusal = await town.refused(f"{API}/events?rm={RM}&type=weather")
    assert "type: WEATHER is no kind of event" in refusal["message"]
