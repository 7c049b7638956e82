"""Fields of asks and applications that are sent as tags."""

from collections.abc import Mapping
from typing import Any

import pytest

from licorne import Application, Ask, Rejected, TaskGroup
from licorne.cache import Cache
from licorne.wire import allocation, application
from licorne_server.testing import FakeRM, serve
from support.core.steps import listed

NOW = 1_700_000_000
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TAGS = {
    "required_node": "yunikorn.apache.org/requiredNode",
    "predicate_class": "licorne/predicate-class",
    "traceparent": "licorne/traceparent",
    "runtime": "licorne/runtime",
    "start_by": "licorne/start-by",
    "started": "licorne/started",
}
VALUES: dict[str, Any] = {
    "required_node": "n7",
    "predicate_class": "gpu",
    "traceparent": TRACE,
    "runtime": 3600,
    "start_by": NOW,
    "started": NOW,
}
OF_APPLICATIONS: dict[str, tuple[str, Any, str]] = {
    "runtime": ("licorne/runtime", 3600, "3600"),
    "start_by": ("licorne/start-by", NOW, str(NOW)),
    "topology": ("licorne/topology", "required=topology.kubernetes.io/zone", ""),
    "gang_slice": ("licorne/slice", "size=18,level=nvlink", ""),
    "gang_min": ("licorne/gang-min", 4, "4"),
    "gang_max": ("licorne/gang-max", 100_000, "100000"),
    "gang_step": ("licorne/gang-step", 2, "2"),
}


def ask(tags: Mapping[str, str] | None = None, **fields: Any) -> Ask:
    """The ask k1, with some fields and tags."""
    return Ask(key="k1", application_id="a", resources={"vcore": 1}, tags=tags or {}, **fields)


@pytest.mark.parametrize("field", TAGS)
def test_a_field_is_sent_as_its_tag(field: str) -> None:
    """The server gets the tag of the published name, in addition to the caller's tags."""
    message = allocation(ask({"zone": "a"}, **{field: VALUES[field]}))
    assert dict(message.allocationTags) == {"zone": "a", TAGS[field]: str(VALUES[field])}


def test_empty_fields_have_no_tag() -> None:
    """An ask without these fields has only the caller's tags."""
    assert dict(allocation(ask({"zone": "a"})).allocationTags) == {"zone": "a"}


@pytest.mark.parametrize("field", TAGS)
def test_an_equal_tag_keeps_its_spelling(field: str) -> None:
    """A field and a tag of the same value are one tag, with the caller's spelling."""
    tag = TAGS[field].upper()
    cache = Cache()
    [message] = cache.ask([ask({tag: str(VALUES[field])}, **{field: VALUES[field]})], NOW)
    assert dict(message.allocationTags) == {tag: str(VALUES[field])}


@pytest.mark.parametrize("field", TAGS)
def test_a_contradicting_tag_is_refused(field: str) -> None:
    """A field and a tag that differ are refused, both named with their values, and nothing is sent."""
    cache = Cache()
    tag = TAGS[field].title()
    with pytest.raises(Rejected) as error:
        cache.ask([ask({tag: "other"}, **{field: VALUES[field]})], NOW)
    assert error.value.key == "k1"
    assert error.value.reason.startswith(f"{field} is {VALUES[field]!r}"[:20])
    assert error.value.reason.endswith(f"the tag '{tag}' is 'other'")
    assert cache.asks == {}


@pytest.mark.parametrize(
    "traceparent",
    [
        "abc",
        TRACE.upper(),
        TRACE[:-1],
        TRACE + "-00",
        TRACE.replace("00-", "ff-", 1),
        TRACE.replace("00-", "0g-", 1),
        TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        TRACE.replace("00f067aa0ba902b7", "0" * 16),
        " " + TRACE,
    ],
)
def test_a_malformed_traceparent_is_refused(traceparent: str) -> None:
    """A value that W3C Trace Context does not allow is refused with the name of the field."""
    with pytest.raises(Rejected, match=r"k1: traceparent is .*: it must be 00-<32 digits"):
        Cache().ask([ask(traceparent=traceparent)], NOW)


@pytest.mark.parametrize("traceparent", [TRACE, TRACE.replace("00-", "cc-", 1) + "-what-comes"])
def test_valid_traceparents_are_accepted(traceparent: str) -> None:
    """A later version of the format may have more fields after the flags."""
    [message] = Cache().ask([ask(traceparent=traceparent)], NOW)
    assert message.allocationTags["licorne/traceparent"] == traceparent


@pytest.mark.parametrize("field", ["required_node", "predicate_class"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x" * 513, "has 513 characters: 512 at most can be sent"),
        ("a\nb", r"is 'a\\nb': it must be printable"),
        (7, "is 7: it must be a text"),
    ],
)
def test_invalid_names_are_refused(field: str, value: str, reason: str) -> None:
    """A name beyond the server's bounds is refused with the field, before anything is sent."""
    with pytest.raises(Rejected, match=f"k1: {field} {reason}"):
        Cache().ask([ask(None, **{field: value})], NOW)


@pytest.mark.parametrize("field", OF_APPLICATIONS)
def test_a_field_of_an_application_is_sent_as_its_tag(field: str) -> None:
    """The server gets the tag, also of a forced application; a tag that differs is refused."""
    tag, value, text = OF_APPLICATIONS[field]
    app = Application(application_id="app", tags={"zone": "a"}, **{field: value})
    assert dict(application(app).tags) == {"zone": "a", tag: text or value}
    assert application(app, force=True).tags[tag] == (text or value)
    other = Application(application_id="app", tags={tag.upper(): "other"}, **{field: value})
    with pytest.raises(Rejected, match=f"app: {field} is .*: the tag '{tag.upper()}' is 'other'"):
        Cache().submit([other])


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("runtime", -1, "is -1: it must lie between 0 and 1000000000"),
        ("runtime", 0.5, "is 0.5: it must be a whole number"),
        ("runtime", True, "is True: it must be a whole number"),
        ("start_by", 2**60, "must lie between 0 and"),
        ("topology", "rack", "is 'rack': it must be required=<level> or preferred=<level>"),
        ("topology", "required=", "is 'required=': it must be required"),
        ("topology", "needed=rack", "is 'needed=rack': it must be required"),
        ("topology", "required=rack,preferred=zone", "it must be required"),
        ("topology", "required=the rack", "it must be required"),
        ("topology", 7, "is 7: it must be a text"),
        ("gang_slice", "18", "is '18': it must be size=<members>,level=<level>"),
        ("gang_slice", "size=0,level=rack", "it must be size=<members>"),
        ("gang_slice", "size=100001,level=rack", "it must be size=<members>"),
        ("gang_slice", "size=²,level=rack", "it must be size=<members>"),
        ("gang_slice", "size=18,level=", "it must be size=<members>"),
        ("gang_slice", "size=18,level=rack,", "it must be size=<members>"),
        ("gang_slice", "level=rack", "it must be size=<members>"),
        ("gang_min", -1, "is -1: it must lie between 0 and 100000"),
        ("gang_max", 100_001, "is 100001: it must lie between 0 and 100000"),
        ("gang_step", "2", "is '2': it must be a whole number"),
    ],
)
def test_invalid_values_are_refused(field: str, value: Any, reason: str) -> None:
    """An invalid value of an ask or application is refused with field and value before anything is sent."""
    cache = Cache()
    with pytest.raises(Rejected) as error:
        cache.submit([Application(application_id="app", **{field: value})])
    assert error.value.reason.startswith(f"{field} is ")
    assert reason in error.value.reason
    if field in TAGS:
        with pytest.raises(Rejected) as error:
            cache.ask([ask(**{field: value})], NOW)
        assert reason in error.value.reason


def test_slices_may_be_named_in_either_order() -> None:
    """Size and level of slices are one value, in either order."""
    cache = Cache()
    [message] = cache.submit([Application(application_id="app", gang_slice="level=rack,size=4")])[0]
    assert message.tags["licorne/slice"] == "level=rack,size=4"


async def test_the_test_kit_takes_the_fields() -> None:
    """The fields of `submit` and `ask` arrive at the server as tags."""
    config = "partitions: [{name: default, queues: [{name: root, submitacl: '*', %s}]}]"
    config %= "properties: {topology.levels: rack}, queues: [{name: default}]"
    async with serve(config) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1, attributes={"rack": "r"})
        gang = (TaskGroup(name="g", members=2, resources={"vcore": 1000}),)
        rack, pairs = "preferred=rack", "size=2,level=rack"
        await rm.submit("app", runtime=60, start_by=NOW, task_groups=gang, topology=rack, gang_slice=pairs)
        own: dict[str, Any] = {"required_node": "node-1", "predicate_class": "gpu", "traceparent": TRACE}
        await rm.ask("app", runtime=5, start_by=NOW + 1, **own)
        await rm.allocated(3)
        partition = server.views.partitions()[0].name
        running = [one[0].ask for one in listed(server.views.allocations(partition, "app"))]
        assert [ask.placeholder for ask in running].count(True) == 2
        [tags] = [ask.tags for ask in running if ask.key == "app-1"]
        assert (tags["licorne/runtime"], tags["licorne/start-by"]) == ("5", str(NOW + 1))
        assert {name: tags[TAGS[name]] for name in own} == own


async def test_the_test_kit_has_elastic_gangs() -> None:
    """The minimum starts together, and the further members in whole steps up to the maximum."""
    async with serve() as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1, vcore=9000)
        await rm.submit("app", gang_min=2, gang_max=6, gang_step=4)
        keys = await rm.ask("app", 7, task_group="workers", vcore=1000)
        assert sorted(await rm.allocated(6)) == keys[:6]
