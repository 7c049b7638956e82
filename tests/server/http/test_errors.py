"""Errors of REST: the status, reason and form of each; and units."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from licorne_core.values.resources import Resources
from licorne_server.http.units import duration, errors_as_json, milliseconds, percentages
from licorne_server.wire.responses import point_in_time
from support.server.http_site import Site


async def test_a_long_body_is_refused(site: Site) -> None:
    """A body over the limit is a 413, whether it announces its length or not."""
    body = b"#" * (2 * 1024 * 1024 + 1)
    answer = await site.refused("/ws/v1/validate-conf", method="POST", body=body)

    assert (answer["status_code"], "2097152" in answer["message"]) == (413, True)


async def test_defects_are_not_revealed() -> None:
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
def test_percentages_are_whole_up_to_100(total: Resources, used: Resources, shown: dict[str, int]) -> None:
    """A percentage is from 0 to 100, rounded down."""
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
def test_durations_have_the_form_of_the_older_core(seconds: float, text: str) -> None:
    """Hours, minutes and seconds, with the smaller ones included, and without needless digits."""
    assert duration(seconds) == text


def test_times_have_the_form_of_the_older_core() -> None:
    """Times are in RFC 3339 in UTC, or in whole milliseconds."""
    assert point_in_time(1.5) == "1970-01-01T00:00:01.500000Z"
    assert milliseconds(1.0006) == 1001
