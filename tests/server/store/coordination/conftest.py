"""Members in virtual time."""

from collections.abc import Callable, Iterator

import pytest

from support.coordination.deployment import Deployment
from support.coordination.playing import silence


@pytest.fixture
def deploy() -> Iterator[Callable[..., Deployment]]:
    """Starts members in virtual time, at these addresses."""
    made: list[Deployment] = []

    def start(*addresses: str) -> Deployment:
        made.append(Deployment(*addresses))
        return made[-1]

    with silence():
        yield start
        for deployment in made:
            deployment.close()
