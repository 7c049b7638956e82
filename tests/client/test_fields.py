"""Invalid values are refused at once, with field and value."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from licorne import Client, Limits, Rejected, RetryConfig
from licorne.cache import Cache
from licorne.model import Allocation, Application, Ask, Node, Termination

NOW = 1_700_000_000
WHOLE = "an amount must be a whole number"
LONE = "it holds a lone surrogate, which UTF-8 has not"


class Count:
    """A whole number that is no int and cannot be looked up, as in numeric libraries."""

    __hash__ = None  # type: ignore[assignment]

    def __index__(self) -> int:
        """Its value."""
        return 7


@pytest.fixture
def cache() -> Cache:
    """A node, an application and an ask, all of them valid."""
    cache = Cache()
    cache.add_nodes([node()])
    cache.submit([application()])
    cache.ask([ask()], NOW)
    return cache


def node(**fields: Any) -> Node:
    """The node n1, with other fields as given."""
    return Node(**{"node_id": "n1", "capacity": {"vcore": 1}, **fields})


def application(**fields: Any) -> Application:
    """The application `app`, with other fields as given."""
    return Application(**{"application_id": "app", **fields})


def ask(**fields: Any) -> Ask:
    """The ask k1, with other fields as given."""
    return Ask(**{"key": "k1", "application_id": "app", "resources": {"vcore": 1}, **fields})


def refused(call: Callable[[], object], key: str, reason: str) -> None:
    """Check that the call is refused in these words."""
    with pytest.raises(Rejected) as error:
        call()
    assert (error.value.key, error.value.reason) == (key, reason)


@pytest.mark.parametrize("key", ["k1", "k2"])
@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1.5, f"vcore is 1.5: {WHOLE}"),
        (1.0, f"vcore is 1.0: {WHOLE}"),
        ("x", f"vcore is 'x': {WHOLE}"),
        (None, f"vcore is None: {WHOLE}"),
        (True, f"vcore is True: {WHOLE}"),
        ([1], f"vcore is [1]: {WHOLE}"),
        (-1, "vcore is -1: an amount must lie between 0 and 2^63 - 1"),
        (2**63, f"vcore is {2**63}: an amount must lie between 0 and 2^63 - 1"),
        pytest.param(
            2**20000,
            "vcore is a number of 20001 bits: an amount must lie between 0 and 2^63 - 1",
            id="huge",
        ),
    ],
)
def test_amounts_are_whole_numbers(cache: Cache, key: str, amount: Any, text: str) -> None:
    """Amounts of another type are named, in asks, nodes and resizes, even beside equal ints."""
    amounts = {"vcore": amount}
    name = key.replace("k", "n")
    refused(lambda: cache.ask([ask(key=key, resources=amounts)], NOW), key, text)
    refused(lambda: cache.add_nodes([node(node_id=name, capacity=amounts)]), name, text)
    refused(lambda: cache.update_node("n1", amounts), "n1", text)
    other = application(application_id="b", placeholder_resources=amounts)
    refused(lambda: cache.submit([other]), "b", text)
    assert (len(cache.nodes), len(cache.applications), len(cache.asks)) == (1, 1, 1)
    assert cache.asks["k1"].ask.resources == cache.nodes["n1"].node.capacity == {"vcore": 1}


def test_whole_numbers_of_other_types_are_accepted() -> None:
    """Any type with `__index__` is accepted as a whole number."""
    (message,) = Cache().add_nodes([node(capacity={"vcore": Count()})])
    assert message.schedulableResource.resources["vcore"].value == 7
    (asked,) = Cache().ask([ask(priority=Count(), resources={"vcore": Count()})], NOW)
    assert (asked.priority, asked.resourcePerAlloc.resources["vcore"].value) == (7, 7)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"priority": 2**40}, f"priority is {2**40}: it must lie between -2^31 and 2^31 - 1"),
        ({"priority": 1.5}, "priority is 1.5: it must be a whole number"),
        ({"priority": None}, "priority is None: it must be a whole number"),
        ({"application_id": None}, "application_id is None: it must be a text"),
        ({"application_id": b"app"}, "application_id is b'app': it must be a text"),
        ({"task_group": "\ud800"}, f"task_group is '\\ud800': {LONE}"),
        ({"partition": 5}, "partition is 5: it must be a text"),
        ({"tags": {"creationTime": 5}}, "tags['creationTime'] is 5: it must be a text"),
        ({"tags": {"a": "\udfff"}}, f"tags['a'] is '\\udfff': {LONE}"),
        ({"tags": {5: "a"}}, "a key of tags is 5: it must be a text"),
        ({"tags": "abc"}, "tags is 'abc': it must be a mapping of texts to texts"),
        ({"placeholder": "no"}, "placeholder is 'no': it must be True or False"),
        ({"allow_preempt_other": None}, "allow_preempt_other is None: it must be True or False"),
        ({"resources": None}, "resources is None: it must be a mapping of names to amounts"),
        ({"resources": {b"vcore": 1}}, "a name in resources is b'vcore': it must be a text"),
        ({"task_group": ["x" * 99]}, f"task_group is ['{'x' * 62}…: it must be a text"),
    ],
)
def test_a_bad_field_of_an_ask_is_named(cache: Cache, fields: dict[str, Any], reason: str) -> None:
    """Errors of asks and reported allocations name field and value, and the items are not stored."""
    bad = ask(key="k2", **fields)
    refused(lambda: cache.ask([ask(key="k3"), bad], NOW), "k2", reason)
    refused(lambda: cache.report([Allocation(ask=bad, node_id="n1")], NOW), "k2", reason)
    assert list(cache.asks) == ["k1"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"user": None}, "user is None: it must be a text"),
        ({"queue": "root.\ud800"}, f"queue is 'root.\\ud800': {LONE}"),
        ({"groups": "dev"}, "groups is 'dev': it must be a list of texts"),
        ({"groups": None}, "groups is None: it must be a list of texts"),
        ({"groups": ("dev", 5)}, "groups[1] is 5: it must be a text"),
        (
            {"placeholder_timeout": 2**63},
            f"placeholder_timeout is {2**63}: it must be seconds, between 0 and 1e+09",
        ),
        (
            {"placeholder_timeout": -1},
            "placeholder_timeout is -1: it must be seconds, between 0 and 1e+09",
        ),
        ({"gang_style": "hard"}, "gang_style is 'hard': it must be 'Soft', 'Hard' or empty"),
    ],
)
def test_a_bad_field_of_an_application_is_named(cache: Cache, fields: dict[str, Any], reason: str) -> None:
    """Errors of applications name field and value, and the items are not stored."""
    refused(lambda: cache.submit([application(application_id="b", **fields)]), "b", reason)
    assert list(cache.applications) == [("default", "app")]


def test_a_bad_field_of_a_node_is_named(cache: Cache) -> None:
    """Errors of nodes name field and value, and the items are not stored."""
    bad = node(node_id="n2", attributes={"rack": None})
    refused(lambda: cache.add_nodes([bad]), "n2", "attributes['rack'] is None: it must be a text")
    assert list(cache.nodes) == ["n1"]


@pytest.mark.parametrize("key", [None, 5, b"k", ["k"]])
def test_an_invalid_key_is_named(cache: Cache, key: Any) -> None:
    """An invalid key is shown in the error in Python's notation."""
    reason = f"is {key!r}: it must be a text"
    refused(lambda: cache.ask([ask(key=key)], NOW), repr(key), f"key {reason}")
    refused(lambda: cache.add_nodes([node(node_id=key)]), repr(key), f"node_id {reason}")
    bad = application(application_id=key)
    refused(lambda: cache.submit([bad]), repr(key), f"application_id {reason}")
    placed = Allocation(ask=ask(key="k2"), node_id=key)
    refused(lambda: cache.report([placed], NOW), "k2", f"node_id {reason}")


@pytest.mark.parametrize(
    ("name", "wanted", "call"),
    [
        ("nodes", "Node", Cache.add_nodes),
        ("applications", "Application", Cache.submit),
        ("asks", "Ask", lambda cache, items: cache.ask(items, NOW)),
        ("allocations", "Allocation", lambda cache, items: cache.report(items, NOW)),
        ("keys", "keys", lambda cache, items: cache.release(items, Termination.STOPPED)),
    ],
)
def test_list_types(cache: Cache, name: str, wanted: str, call: Callable[[Cache, Any], object]) -> None:
    """A text, a single item, or a list of anything else is a TypeError with the expected type."""
    single = {
        "nodes": node(),
        "applications": application(),
        "asks": ask(),
        "allocations": Allocation(ask=ask(), node_id="n1"),
        "keys": "k1",
    }[name]
    for given in ("k1", b"k1", None, 5, single):
        with pytest.raises(TypeError, match=f"^{name} is .*: it must be a list of {wanted}$"):
            call(cache, given)
    for given in ([5], [None], [single, b"k1"]):
        with pytest.raises(TypeError, match=f"^{name} holds .*: it must be a list of {wanted}$"):
            call(cache, given)
    assert list(cache.asks) == ["k1"]


def test_an_allocation_needs_an_ask(cache: Cache) -> None:
    """An allocation of anything but an ask is a TypeError."""
    bad: Any = "k1"
    with pytest.raises(TypeError, match=r"^ask holds 'k1': it must be a list of Ask$"):
        cache.report([Allocation(ask=bad, node_id="n1")], NOW)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"rm_id": None}, "rm_id is None: it must be a text"),
        ({"rm_id": "\ud800"}, f"rm_id is '\\ud800': {LONE}"),
        ({"config": b"partitions: []"}, "config is b'partitions: []': it must be a text"),
        ({"extra_config": {"a": 5}}, "extra_config['a'] is 5: it must be a text"),
        ({"build_info": ["a"]}, "build_info is ['a']: it must be a mapping of texts to texts"),
        ({"version": 1}, "version is 1: it must be a text"),
        ({"instance": -1}, "instance is -1: it must lie between 1 and 2^64 - 1"),
        ({"instance": 0}, "instance is 0: it must lie between 1 and 2^64 - 1"),
        ({"instance": 1.5}, "instance is 1.5: it must be a whole number"),
    ],
)
async def test_invalid_arguments_of_a_client_are_named(fields: dict[str, Any], text: str) -> None:
    """An argument that no hello can have is refused when the client is created."""
    with pytest.raises(ValueError, match=r"must|surrogate") as error:
        Client("localhost:1", **{"rm_id": "rm1", **fields})
    assert str(error.value) == text


async def test_no_configuration_is_no_update() -> None:
    """None in place of a configuration is refused, and does not apply the server's default."""
    nothing: Any = None
    rm = Client("localhost:1", rm_id="rm1")
    with pytest.raises(ValueError, match=r"^config is None: it must be a text$"):
        await rm.update_configuration(nothing)


BAD_IDS: list[tuple[Any, str]] = [(7, "7"), (None, "None"), (b"n1", "b'n1'"), (["n1"], "['n1']")]


@pytest.mark.parametrize(("given", "shown"), BAD_IDS)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("node_id", lambda rm, given: rm.update_node(given, {"vcore": 1})),
        ("node_id", lambda rm, given: rm.drain_node(given)),
        ("node_id", lambda rm, given: rm.undrain_node(given)),
        ("node_id", lambda rm, given: rm.remove_node(given)),
        ("application_id", lambda rm, given: rm.remove_application(given)),
        ("partition", lambda rm, given: rm.remove_application("app", partition=given)),
    ],
)
async def test_an_id_of_another_type_is_refused(
    name: str, call: Callable[[Client, Any], Awaitable[None]], given: Any, shown: str
) -> None:
    """A method with one id names the argument and the value that is no text."""
    rm = Client("localhost:1", rm_id="rm1")
    with pytest.raises(TypeError) as error:
        await call(rm, given)
    assert str(error.value) == f"{name} is {shown}: it must be a text"


@pytest.mark.parametrize("keys", [["k1"], ["unknown"], []])
def test_an_invalid_termination_is_refused(cache: Cache, keys: list[str]) -> None:
    """Another value is refused by name before anything is released, whatever the keys are."""
    bad: Any = "STOPPED"
    with pytest.raises(TypeError, match=r"^termination is 'STOPPED': it must be a Termination$"):
        cache.release(keys, bad)
    assert list(cache.asks) == ["k1"]


@pytest.mark.parametrize("name", ["outgoing", "resend", "events"])
@pytest.mark.parametrize("value", [0, -1, 1.5, None])
def test_a_limit_below_one_is_refused(name: str, value: Any) -> None:
    """A limit that would stop the client for ever is refused with name and value."""
    assert getattr(Limits(**{name: 1}), name) == 1
    with pytest.raises(ValueError, match="it must be a whole number, 1 or more") as error:
        Limits(**{name: value})
    assert str(error.value).startswith(f"{name} is {value!r}: ")


@pytest.mark.parametrize("name", ["initial", "maximum", "exhausted", "stable", "give_up_after"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), "1"])
def test_an_invalid_time_of_a_retry_is_refused(name: str, value: Any) -> None:
    """Seconds that are negative or no number are refused with name and value."""
    assert getattr(RetryConfig(**{name: 0}), name) == 0
    with pytest.raises(ValueError, match="it must be seconds, 0 or more") as error:
        RetryConfig(**{name: value})
    assert str(error.value).startswith(f"{name} is {value!r}: ")
