"""Settings of a partition, and values of every type (spec §§ 2.1, 2.5 #16)."""

import pytest

from licorne_core.config.load import load
from licorne_core.config.schema import NodeSortPolicy, NodeSortType
from support.core.builders import config
from support.core.configurations import complaint, partition, root


@pytest.mark.row(43)
@pytest.mark.parametrize("policy", ["auto", "{type: auto}", "{}", "''", "~", "{type: ''}"])
def test_a_node_sort_policy_is_a_word_or_a_mapping(policy: str) -> None:
    """The node sort policy is a word or a mapping; the default is auto with equal weights."""
    found = partition(f"nodesortpolicy: {policy}\nqueues: [{{name: a}}]").node_sort
    assert found == NodeSortPolicy(type=NodeSortType.AUTO, weights={"vcore": 1.0, "memory": 1.0})


@pytest.mark.row(44)
def test_given_weights_replace_the_default_weights() -> None:
    """If weights are given, a type without a given weight has none."""
    body = """
        nodesortpolicy: {type: binpacking, resourceweights: {vcore: 4.0, gpu: 1, memory: 0}}
        queues: [{name: a}]
        """
    assert partition(body).node_sort == NodeSortPolicy(
        type=NodeSortType.BINPACKING, weights={"vcore": 4.0, "gpu": 1.0, "memory": 0.0}
    )


def test_the_node_order_spread_names_a_node_attribute() -> None:
    """The policy `spread` has a node attribute, and weights like other policies."""
    body = """
        nodesortpolicy: {type: spread, attribute: si/zone, resourceweights: {vcore: 2}}
        queues: [{name: a}]
        """
    assert partition(body).node_sort == NodeSortPolicy(
        type=NodeSortType.SPREAD, attribute="si/zone", weights={"vcore": 2.0}
    )


@pytest.mark.row(44)
@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("random", "undefined policy: random, expected one of auto, fair, binpacking, spread"),
        ("{type: random}", "undefined policy: random, expected one of auto, fair, binpacking, spread"),
        ("{resourceweights: {vcore: -0.5}}", "negative resource weight for vcore is not allowed"),
        ("{resourceweights: {vcore: 1e308}}", "resource weight for vcore is larger than 1e+09"),
        ("{resourceweights: {vcore: lots}}", "expected a number, found 'lots'"),
        ("{resourceweights: {vcore: .inf}}", "expected a number, found '.inf'"),
        ("{resourceweights: {vcore: 1e999}}", "expected a number, found '1e999'"),
        ("[fair]", "expected a mapping, found a list"),
        ("spread", "node sort policy spread needs an attribute"),
        ("{type: spread}", "node sort policy spread needs an attribute"),
        ("{type: spread, attribute: ''}", "node sort policy spread needs an attribute"),
        ("{type: spread, attribute: [zone]}", "expected a text, found a list"),
        ("{attribute: zone}", "node sort policy auto has no attribute, found 'zone'"),
        ("{type: binpacking, attribute: zone}", "node sort policy binpacking has no attribute, found 'zone'"),
        (
            "{type: random, attribute: zone}",
            "undefined policy: random, expected one of auto, fair, binpacking, spread",
        ),
    ],
)
def test_an_invalid_node_sort_policy_is_refused(policy: str, message: str) -> None:
    """An unknown policy, an invalid weight, and an attribute with another policy are refused."""
    assert complaint(f"nodesortpolicy: {policy}\nqueues: [{{name: a}}]") == message


@pytest.mark.row(45)
@pytest.mark.parametrize(
    ("preemption", "enabled", "quota"),
    [
        ("~", True, False),
        ("{}", True, False),
        ("{enabled: ~}", True, False),
        ("{enabled: true}", True, False),
        ("{enabled: false, quotapreemptionenabled: true}", False, True),
    ],
)
def test_defaults_of_the_preemption_switches(preemption: str, enabled: bool, quota: bool) -> None:
    """Preemption is on by default, and quota preemption is off."""
    found = partition(f"preemption: {preemption}\nqueues: [{{name: a}}]")
    assert found.preemption_enabled == enabled
    assert found.switches == {"preemption.quotapreemptionenabled": quota}


@pytest.mark.row(45)
@pytest.mark.parametrize("value", ["'true'", "1", "yes", "no", "on", "off", "0", "maybe", "[true]"])
def test_a_flag_is_true_or_false(value: str) -> None:
    """Only a plain true or false is accepted as a flag."""
    body = f"preemption: {{enabled: {value}}}\nqueues: [{{name: a}}]"
    assert complaint(body).startswith("expected true or false, found ")


@pytest.mark.parametrize("value", ["-1", "1.5", "'3'", "12:30", "0x10", "1e3", "18446744073709551616"])
def test_a_count_is_a_whole_number(value: str) -> None:
    """Only a plain whole number is accepted as a count."""
    message = complaint(f"queues: [{{name: a, maxapplications: {value}}}]")
    assert message.startswith("expected a whole number from 0 to 18446744073709551615, found ")


@pytest.mark.parametrize(("value", "count"), [("010", 10), ("0", 0), ("18446744073709551615", 2**64 - 1)])
def test_counts_are_decimal(value: str, count: int) -> None:
    """A leading zero does not make a number octal."""
    assert root(f"queues: [{{name: a, maxapplications: {value}}}]").queues[0].max_applications == count


@pytest.mark.parametrize("kind", ["os", "ldap", "test", "''"])
def test_unknown_group_resolvers_are_refused(kind: str) -> None:
    """The supported group resolvers are accepted, and any other is refused."""
    body = "usergroupresolver: {type: %s}\nqueues: [{name: a}]"
    assert partition(body % kind).user_group_resolver == kind.strip("'")
    assert complaint(body % "magic").startswith("unknown user group resolver 'magic'")


@pytest.mark.parametrize(
    ("key", "value", "needs", "on"),
    [
        ("backfill.order", "shortest", "backfill", "easy"),
        ("backfill.order.until", "12h", "backfill.order", "shortest"),
        ("reserve.after", "0s", "backfill", "conservative"),
        ("topology.swap-seconds", "300", "topology.levels", "rack"),
        ("fairshare.weight", "1", "fairshare.half-life", "1h"),
        ("application.unschedasks.backoff.delay", "30s", "application.unschedasks.backoff", "3"),
        ("quota.preemption.delay", "5s", "preemption.quotapreemptionenabled", "true"),
    ],
)
@pytest.mark.parametrize("where", ["properties", "childtemplate"])
def test_a_property_without_its_prerequisite_gives_a_warning(
    key: str, value: str, needs: str, on: str, where: str
) -> None:
    """A property without effect, as no queue has the one it needs, gives a warning, in a template as well."""
    own = f"properties: {{{key}: '{value}'}}"
    own = own if where == "properties" else f"parent: true, childtemplate: {{{own}}}"
    queues = f"[{{name: a, {own}}}]"
    assert f"{key} has no effect without {needs}" in load(config(queues)).notes
    others = "backfill: easy, " if needs == "backfill.order" else ""
    if needs.startswith("preemption."):
        text = config(queues, rest="preemption: {quotapreemptionenabled: true}")
    else:
        text = config(queues, properties=f"{{{others}{needs}: '{on}'}}")
    assert not [note for note in load(text).notes if "without" in note]


@pytest.mark.parametrize(
    "own", ["properties: {backfill: easy}", "parent: true, childtemplate: {properties: {backfill: easy}}"]
)
def test_a_property_of_root_that_another_queue_has_does_not_count(own: str) -> None:
    """`backfill` counts only at root: below, it and a setting that needs it are noted as idle."""
    notes = load(config(f"[{{name: a, {own}}}]", properties="{backfill.order: shortest}")).notes
    whose = "the template of queue root.a" if "template" in own else "queue root.a"
    idle = f"backfill of {whose} has no effect below root"
    assert notes == (idle, "backfill.order has no effect without backfill")
