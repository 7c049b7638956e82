"""Details on the page: objects, searches, and history."""

from licorne_core.values.ids import RmId
from licorne_server.http.ui import page
from support.core.builders import RM, app, apps, node, nodes, release, releases
from support.server.http_site import API, MINE, Site


def tell(site: Site) -> None:
    """Record all events in the RM's log."""
    site.events.begin(RmId(RM))
    site.events.get(RM).append(tuple(site.driver.facts))


async def test_the_heat_map_is_made_once_for_all(town: Site) -> None:
    """Within the time that it is fresh, the next viewer gets the same."""
    first = await town.get(f"{MINE}/heat")
    town.driver.do(nodes(node("late", vcore=1000)))
    assert await town.get(f"{MINE}/heat") == first


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
