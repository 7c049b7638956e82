"""Victims of preemption over REST: the latest first, and what narrows the list."""

import pytest

from licorne_core.scheduling.preemption.ledger import Ledger, PreemptionRule
from licorne_core.values.ids import PartitionName
from support.core.builders import register
from support.core.victims import TIME, victim
from support.server.http_site import Site

PATH = "/ws/v1/partition/default/preemptions"
AT = int(TIME) * 10**9


@pytest.fixture
def ledger(site: Site) -> Ledger:
    """That of the partition of an RM."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: root}]}]"))
    return site.driver.scheduler.partitions[PartitionName("[rm1]default")].ledger


async def test_a_victim_of_a_maximum_has_no_ask(site: Site, ledger: Ledger) -> None:
    """Its beneficiary is null; one that is still there has no time of release."""
    ledger.note(victim("gone", released=TIME + 1))
    ledger.note(victim("v", rule=PreemptionRule.QUOTA))
    shown, gone = await site.get(PATH)
    assert gone["releasedTime"] == AT + 10**9
    assert (shown["rule"], shown["beneficiary"]) == ("quota", None)
    assert shown["beneficiaryQueue"]["queueName"] == "root"
    assert "releasedTime" not in shown


async def test_the_list_may_be_narrowed(site: Site, ledger: Ledger) -> None:
    """To an application, to a key, or to both; the latest comes first."""
    for key, app_id in (("a", "low"), ("b", "low"), ("a", "other")):
        ledger.note(victim(key, app_id))

    async def keys(query: str) -> list[str]:
        return [f"{item['applicationId']}/{item['allocationKey']}" for item in await site.get(PATH + query)]

    assert await keys("") == ["other/a", "low/b", "low/a"]
    assert await keys("?applicationID=low") == ["low/b", "low/a"]
    assert await keys("?allocationKey=a") == ["other/a", "low/a"]
    assert await keys("?applicationID=low&allocationKey=a") == ["low/a"]
    assert await keys("?applicationID=nobody") == []
