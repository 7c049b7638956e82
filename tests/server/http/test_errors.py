"""Requests without an answer, each with status, reason and one form; and the units of REST."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from licorne_core.values.resources import Resources
from licorne_server.http.units import duration, errors_as_json, milliseconds, percentages
from licorne_server.wire.responses import point_in_time
from support.core.builders import app, apps, register
from support.server.http_site import Site

BASE = "/ws/v1/partition/default/"
CONFIG = "partitions: [{name: default, queues: [{name: a}]}]"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/ws/v1/partition/other/queues", "other"),
        ("/ws/v1/partition/[rm2]default/nodes", "[rm2]default"),
        (BASE + "queue/root.b", "root.b"),
        (BASE + "queue/root.b/applications", "root.b"),
        (BASE + "queue/root.a/application/app-1", "app-1"),
        (BASE + "application/app-1", "app-1"),
        (BASE + "node/n1", "n1"),
        (BASE + "node/%FF%FE", ""),
        ("/ws/v1/nothing", ""),
        ("/nothing", ""),
    ],
)
async def test_missing_things_are_404(site: Site, path: str, named: str) -> None:
    """A missing object is a 404 whose message names it, under both spellings of the keys."""
    site.driver.do(register(CONFIG))

    answer = await site.refused(path)

    assert answer["status_code"] == 404
    assert named in answer["message"]
    assert answer["description"] == "Not Found"


@pytest.mark.parametrize(
    "path",
    [
        *(BASE + rest for rest in ("queues", "nodes", "applications/active", "usage/users")),
        "/ui/api/partition/default/nodes",
        "/ui/api/partition/default/heat",
    ],
)
async def test_a_fresh_server_says_that_nobody_has_registered(site: Site, path: str) -> None:
    """The message says that no RM has registered."""
    answer = await site.refused(path)
    assert answer["status_code"] == 404
    assert answer["message"] == "partition default not found: no RM has registered yet"
    site.driver.do(register(CONFIG))
    answer = await site.refused(path.replace("default", "other"))
    assert answer["message"] == "partition other not found"


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (BASE + "queue/root.$", "$"),
        (BASE + "queue/root..a/applications", "root..a"),
        (BASE + "queue/" + "x" * 65, "x" * 65),
        (BASE + "applications/running", "running"),
        (BASE + "queue/root.a/applications/new", "new"),
        (BASE + "applications/active?status=busy", "busy"),
    ],
)
async def test_senseless_requests_are_400(site: Site, path: str, named: str) -> None:
    """An invalid request is a 400 whose message quotes it."""
    site.driver.do(register(CONFIG))

    answer = await site.refused(path)

    assert (answer["status_code"], answer["description"]) == (400, "Bad Request")
    assert named in answer["message"]


async def test_application_of_another_queue_is_404(site: Site) -> None:
    """An application is not found below a queue that it is not in."""
    two = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}, {name: b}]}]"
    site.driver.do(register(two), apps(app("app-1", "root.a")))

    assert (await site.get(BASE + "queue/root.a/application/app-1"))["queueName"] == "root.a"
    answer = await site.refused(BASE + "queue/root.b/application/app-1")
    assert answer["message"] == "application app-1 is not in queue root.b"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_reading_paths_take_no_other_method(site: Site, method: str) -> None:
    """An unsupported method is a 405 with the supported ones."""
    status, headers, _ = await site.ask("/ws/v1/partitions", method=method)
    answer = await site.refused("/ws/v1/partitions", method=method)

    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert method in answer["message"]


async def test_long_body_is_refused(site: Site) -> None:
    """A body over the limit is a 413, whether or not it announces its length."""
    body = b"#" * (2 * 1024 * 1024 + 1)
    answer = await site.refused("/ws/v1/validate-conf", method="POST", body=body)

    assert (answer["status_code"], "2097152" in answer["message"]) == (413, True)


async def test_defects_are_masked() -> None:
    """An unexpected error is a 500 without any internals."""

    async def broken(request: web.Request) -> web.StreamResponse:
        raise RuntimeError("secret")

    answer = await errors_as_json(make_mocked_request("GET", "/x"), broken)

    assert isinstance(answer, web.Response)
    assert answer.status == 500
    assert answer.text is not None
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("total", "used", "shown"),
    [
        ({"vcore": 3}, {"vcore": 1}, {"vcore": 33}),
        ({"vcore": 2}, {"vcore": 5}, {"vcore": 100}),
        ({"vcore": 2}, {"vcore": -1}, {"vcore": 0}),
        ({"vcore": 2, "memory": 0}, {"memory": 1}, {"vcore": 0}),
    ],
)
def test_percentages_are_whole_and_end_at_a_hundred(
    total: Resources, used: Resources, shown: dict[str, int]
) -> None:
    """The percentage is from 0 to 100, rounded down."""
    assert percentages(total, used) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (30, "30s"),
        (60, "1m0s"),
        (3600, "1h0m0s"),
        (3661.5, "1h1m1.5s"),
    ],
)
def test_durations_look_like_those_of_the_older_core(seconds: float, text: str) -> None:
    """Hours, minutes and seconds, the smaller ones always included, and no needless digits."""
    assert duration(seconds) == text


def test_points_in_time_are_those_of_the_older_core() -> None:
    """RFC 3339 in UTC, or whole milliseconds."""
    assert point_in_time(1.5) == "1970-01-01T00:00:01.500000Z"
    assert milliseconds(1.0006) == 1001
