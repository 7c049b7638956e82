"""Details on the page: objects, searches and history."""

from licorne_server.http.ui import page
from support.core.builders import app, apps, node, nodes, release, releases
from support.server.http_site import API, MINE, Site


async def test_viewers_share_a_heat_map(town: Site) -> None:
    """While a heat map is fresh, the next viewer gets the same."""
    first = await town.get(f"{MINE}/heat")
    town.driver.do(nodes(node("late", vcore=1000)))
    assert await town.get(f"{MINE}/heat") == first


async def test_search_hits_are_distinguished(town: Site) -> None:
    """A hit has state, queue and user; an ended application has its plain id and its end."""
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


async def test_an_incomplete_search_is_marked(town: Site) -> None:
    """Both the hits of a kind and the examined names are bounded."""
    town.driver.do(apps(*(app(f"many-{n:02}", "root.runs") for n in range(page.HITS + 1))))
    found = await town.get(f"{API}/search?q=many")
    assert len(found["hits"]) == page.HITS
    assert not found["complete"]
