"""An RM on a server whose clock the test moves, with many items in a message or with one."""

from collections.abc import AsyncIterator

import pytest

from support.peers.served_rm import ServedRm, served_rm

SINGLE = frozenset({3, 16, 96, *range(104, 109), 113, 116, *range(123, 155), 161})
"""Acceptance rows that are tried with one item in each message too. They do not depend on what came
in one message and what behind it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try a test of such rows with both habits."""
    if "rm" in metafunc.fixturenames:
        rows = {row for mark in metafunc.definition.iter_markers("row") for row in mark.args}
        both = [False, True] if rows & SINGLE else [False]
        metafunc.parametrize("rm", both, ids=["many", "one"][: len(both)], indirect=True)


@pytest.fixture
async def rm(request: pytest.FixtureRequest) -> AsyncIterator[ServedRm]:
    """An RM that has not registered yet."""
    async with served_rm(one_item=request.param) as rm:
        yield rm
