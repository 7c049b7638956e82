"""Every path of the HTTP listener and every metric, as recorded over small scenes.

The scenes are in ``data/recorded/rest``, see ``support/recorded.py``, and their places in
``support/server/http_scenes.py``. ``pytest --rewrite`` writes them.
"""

import json
import re
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest

from licorne_server.http.ui.page import STATIC
from support.recorded import Scene, compare, scenes
from support.server.http_scenes import CONFIG, SCENES
from support.server.http_site import Site

RECORDED = scenes("rest", "> ")
OF_THE_LIBRARY = ("process_", "python_")
"""Metrics of Prometheus' client library."""
UNSTEADY = ("licorne_build_info", "licorne_idle_collection", "licorne_loop_")
"""Samples of the process that do not depend on the scene; only their names are recorded."""
REFRESH, QUICK = re.compile(r'"refresh": ?\d+'), '"refresh": 2000'
"""The interval of refreshes, which depends on the cost of an answer, and its recorded value."""
NOT_RECORDED = {
    "/debug/fullstatedump": "all that the other paths say, once more",
    "/debug/stack": "what the process does at the moment",
    "/debug/pprof/goroutine": "the same",
    "/debug/pprof/cmdline": "how the tests were started",
    "/debug/pprof/profile": "what the process does for a time",
    "/metrics": "recorded by metrics",
    "/ws/v1/metrics": "the same",
    "/ws/v1/events/stream": "does not end",
    "/ui/api/feed": "does not end",
    "/ui": "a file of the page",
    **dict.fromkeys(STATIC, "a file of the page"),
    **{
        f"/debug/pprof/{name}": "as heap is"
        for name in ("allocs", "block", "mutex", "symbol", "threadcreate", "trace")
    },
}
"""Paths that are not recorded, with the reason."""


@pytest.mark.row(1, 22, 41, 44, 46, 103, 109, 114, 122, 164)
@pytest.mark.parametrize("scene", RECORDED, ids=lambda scene: scene.path)
async def test_paths_have_the_recorded_answers(scene: Scene, site: Site, rewrite: bool) -> None:
    """Each path has the recorded status, kind of content and body."""
    SCENES[scene.place](site)
    await scene.replay(partial(played, site, scene), rewrite=rewrite)


async def played(site: Site, scene: Scene, line: str) -> list[str]:
    """The answer to a line: a method and path, perhaps with a header; a checked body is a configuration."""
    method, path, *more = line[2:].split(" ", 2)
    header = dict([one.split(": ") for one in more])
    given = CONFIG.encode() if path == "/ws/v1/validate-conf" else None
    status, headers, body = await site.ask(path, method=method, body=given, follow=False, **header)
    kind = headers.get("Content-Type", "")
    said = [
        f"{status} {kind}",
        *(f"{name}: {headers[name]}" for name in ("Location", "Allow") if name in headers),
    ]
    if kind.startswith("application/json"):
        shown = json.loads(REFRESH.sub(QUICK, body.decode()))
        return [*said, *(refused(status, shown) or scene.answers.show(shown))]
    return [*said, *body.decode().rstrip().splitlines()]


def refused(status: int, shown: Any) -> list[str]:
    """The message of a refusal with the same keys in both spellings."""
    message = shown["message"] if isinstance(shown, dict) and "message" in shown else ""
    whole = {"status_code": status, "message": message, "description": HTTPStatus(status).phrase}
    old = {"StatusCode": status, "Message": message, "Description": HTTPStatus(status).phrase}
    return [f"refused: {message}"] if shown == whole | old else []


def test_every_path_is_recorded(site: Site) -> None:
    """Each path is recorded, or has a reason why it is not recorded."""
    asked = {line.split()[2].partition("?")[0] for scene in RECORDED for line in scene.played}
    missing = [
        str(path)
        for path in site.paths
        if path not in NOT_RECORDED and not any(re.fullmatch(path, one) for one in asked)
    ]
    assert missing == []


@pytest.mark.row(163)
@pytest.mark.parametrize(("place", "name"), [("busy", "metrics"), ("uneven", "metrics_of_nodes")])
async def test_metrics_are_the_recorded_ones(site: Site, place: str, name: str, rewrite: bool) -> None:
    """Each metric has its name, type and help once; its samples have their labels and values."""
    SCENES[place](site)
    _, _, body = await site.ask("/metrics")
    said, is_left_out, is_whole, heading = [], False, name == "metrics", ""
    for line in body.decode().splitlines():
        if line.startswith("# HELP "):
            is_left_out = line.removeprefix("# HELP ").startswith(OF_THE_LIBRARY)
            heading = line
            continue
        is_empty = line.endswith(" 0") and ("_bucket{" in line or not is_whole)
        is_heading = line.startswith("#") and not is_whole
        if not (is_left_out or is_empty or is_heading or line.startswith(UNSTEADY)):
            said.append(headed(line, heading))
    compare(name, said, rewrite=rewrite)


def headed(line: str, heading: str) -> str:
    """The type of a metric together with its help; any other line as it is."""
    if not line.startswith("# TYPE "):
        return line
    metric, kind = line.removeprefix("# TYPE ").split(" ")
    assert heading.startswith(f"# HELP {metric} ")
    return heading.replace(f"# HELP {metric}", f"# {metric} ({kind}):")
