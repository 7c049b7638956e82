"""The metric names and labels that dashboards for the older core use."""

from licorne_server.http.families import Families
from licorne_server.http.metrics import gather
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver
from support.server.http_site import Site


async def test_queues_with_the_same_metric_name_are_summed(site: Site) -> None:
    """Two queues with one metric name have the total there, and their own values by labels."""
    site.driver.do(
        register(config("[{name: a-b}, {name: a_b}]")),
        nodes(node("n1", vcore=9)),
        apps(app("one", "root.a-b"), app("two", "root.a_b")),
        asks(ask("one", "k1", vcore=4), ask("two", "k2", vcore=3)),
    )

    samples = await site.metrics()

    place = 'partition="default",{}rm="rm1",state="allocated"'
    named = "yunikorn_root_a_b_queue_resource"
    resource = 'partition="default",{}resource="vcore",rm="rm1",state="allocated"'
    assert samples[f"{named}{{{resource.format('')}}}"] == 7
    assert samples[f"yunikorn_root_a_b_queue_container{{{place.format('')}}}"] == 2
    for path, amount in {"root.a-b": 4, "root.a_b": 3}.items():
        labels = resource.format(f'queue="{path}",')
        assert samples[f"yunikorn_queue_resource{{{labels}}}"] == amount
    _, _, body = await site.ask("/metrics")
    assert body.decode().count(f"# TYPE {named} ") == 1


def test_names_with_queues_can_be_disabled() -> None:
    """Without the option no name contains a queue, and the labels are complete."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")))
    for wanted in (True, False):
        families = Families()
        for _ in gather(driver.views, families, queue_names=wanted):
            pass
        text = "".join(families.lines(openmetrics=False))
        assert ("\nyunikorn_root" in text) is wanted
        assert "\nyunikorn_queue_app{" in text
