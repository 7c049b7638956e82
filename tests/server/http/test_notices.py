"""Metrics of notices of preemption."""

import pytest

from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_server.http import scrape
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register
from support.server.http_site import Site

ANSWERS = ("ready", "later", "none")
QUEUES = (
    "[{name: guest, properties: {preemption.notice: 60s}}, "
    "{name: owner, resources: {guaranteed: {memory: 2}}, properties: {preemption.delay: 5s}}]"
)


@pytest.fixture
def noticed(site: Site) -> Site:
    """Two guests on a node, the younger of which is under notice for the owner."""
    driver = site.driver
    driver.do(
        register(config(QUEUES)),
        nodes(node("n1", memory=2)),
        apps(app("guest", "root.guest"), app("owner", "root.owner")),
        asks(ask("guest", "old", memory=1, policy="s", created=driver.now - 9)),
        asks(ask("guest", "young", memory=1, policy="s")),
        asks(ask("owner", "o1", memory=1, policy="o")),
    )
    driver.wait(5.0)
    return site


async def test_notices_have_metrics(noticed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices, answers to them, and open notices are counted by partition."""
    monkeypatch.setattr(scrape, "FRESH_SECONDS", 0.0)

    async def counted() -> dict[str, float]:
        samples = await noticed.metrics()
        names = {name.replace('partition="default",rm="rm1"', ""): value for name, value in samples.items()}
        return {name: value for name, value in names.items() if "notice" in name}

    answers = {f'licorne_preemption_notice_answers_total{{answer="{kind}",}}': 0.0 for kind in ANSWERS}
    given = {"licorne_preemption_notices_total{}": 1.0, "licorne_preemption_notices_withdrawn_total{}": 0.0}
    now = "licorne_allocations_under_notice{}"
    assert await counted() == {**answers, **given, now: 1.0}
    ready = NoticeAnswer(AppId("guest"), AllocationKey("young"))
    noticed.driver.do(AnswerNotices(rm_id=RmId(RM), answers=[ready]))
    answers['licorne_preemption_notice_answers_total{answer="ready",}'] = 1.0
    assert await counted() == {**answers, **given, now: 0.0}
