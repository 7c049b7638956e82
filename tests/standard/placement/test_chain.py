"""The chain of placement rules, and the reasons for a rejection (spec § 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.rules import rules_in_force
from licorne_core.config.schema import PlacementRuleConfig, QueueConfig
from licorne_core.messages.commands import NewApplication
from licorne_core.model.queues.queue import RECOVERY_PATH, may_submit, takes_applications
from licorne_core.model.queues.tree import QueueTree
from licorne_core.standard.placement.chain import MAX_REASONS, Placer
from licorne_core.values.errors import Rejected
from licorne_core.values.ids import AppId, UserGroup
from licorne_core.values.names import is_queue_name
from support.core.trees import check_tree, outline, root_config, tree_of, whole_tree

OPEN = "- {name: root, submitacl: '*', queues: [{name: a}]}"


def refusal(placer: Placer, tree: QueueTree, app: NewApplication) -> str:
    """The reason why an application is refused; the refusal must not change the tree."""
    before = outline(tree)
    with pytest.raises(Rejected) as refused:
        placer.place(app, tree)
    assert outline(tree) == before
    return str(refused.value)


def app(queue: str = "", **tags: str) -> NewApplication:
    """An application of user `ann` that names this queue, with these tags."""
    return NewApplication(app_id=AppId("app-1"), queue_name=queue, user=UserGroup("ann", ("ann",)), tags=tags)


@pytest.mark.row(62)
def test_implicit_rules_are_listed() -> None:
    """Without configured rules, `provided` without creation and the recovery rule are in force."""
    provided, recovery = rules_in_force([])
    assert (provided.name, provided.create) == ("provided", False)
    assert (recovery.name, recovery.create, recovery.value) == ("recovery", True, RECOVERY_PATH)
    user = PlacementRuleConfig(name="user")
    assert rules_in_force([user]) == (user, recovery)


@pytest.mark.parametrize("separator", [".", "x", "_", ","])
def test_a_very_long_queue_name_is_refused_with_a_short_reason(separator: str) -> None:
    """An application with a very long queue name is refused with a short reason, and creates no queue."""
    placer = Placer([PlacementRuleConfig(name="provided", create=True)])
    tree = tree_of(OPEN)
    assert len(refusal(placer, tree, app(f"root.{f'y{separator}' * 50_000}"))) < 300
    assert len(refusal(placer, tree, app(f"y{separator}" * 50_000))) < 300


def test_a_name_with_full_stops_is_one_level() -> None:
    """Every full stop in a user's name is replaced by `_dot_` (spec § 3.8)."""
    placer = Placer([PlacementRuleConfig(name="user", create=True)])
    user = UserGroup("ann.b.c", ("staff",))
    dotted = NewApplication(app_id=AppId("app-1"), queue_name="", user=user)
    assert placer.place(dotted, tree_of(OPEN)).path == "root.ann_dot_b_dot_c"


@pytest.mark.row(84)
def test_a_forced_application_is_recovered_if_its_queue_cannot_be_created() -> None:
    """If its queue cannot be created, a forced application is in the recovery queue; others are refused."""
    placer = Placer([PlacementRuleConfig(name="provided", create=True)])
    tree = tree_of(OPEN)
    assert refusal(placer, tree, app("root.a.gone")).endswith("parent is already a leaf: root.a")
    forced = app("root.a.gone", **{"application.create.force": "true"})
    assert placer.place(forced, tree).path == RECOVERY_PATH


names = st.sampled_from(["a", "B", "root", "a.b", "x,y", "", "root.a", "root.B.c", "@recovery@"])
rule_kinds = st.sampled_from(["provided", "user", "fixed", "tag"])


def rule_configs(levels: int) -> st.SearchStrategy[PlacementRuleConfig]:
    """Random rules with up to this number of parent rules; values of fixed rules are valid."""
    parents = st.none() if levels == 0 else st.none() | rule_configs(levels - 1)
    return st.builds(
        PlacementRuleConfig,
        name=rule_kinds,
        create=st.booleans(),
        value=st.sampled_from(["a", "b.c", "root.b", "root"]),
        parent=parents,
    )


APPS = st.builds(
    app,
    names,
    **dict.fromkeys(("a", "root.b"), names),
    **{"application.create.force": st.sampled_from(["", "true"])},
)
ROOTS: list[QueueConfig] = [
    root_config(queues)
    for queues in (
        OPEN,
        "- {name: a, submitacl: ann, queues: [{name: b}]}\n- {name: b}\n- {name: default}",
        "- {name: root, submitacl: '*', queues: [{name: a, parent: true}, {name: default}]}",
    )
]


@given(st.sampled_from(ROOTS), st.lists(rule_configs(2), max_size=3), st.lists(APPS, max_size=4))
def test_an_application_is_placed_in_a_leaf_or_changes_nothing(
    root: QueueConfig, rules: list[PlacementRuleConfig], newcomers: list[NewApplication]
) -> None:
    """An application is placed in a leaf that its user may use, or (if forced) in the recovery queue."""
    tree = whole_tree(root)
    placer = Placer(rules)
    for newcomer in newcomers:
        before = outline(tree)
        try:
            leaf = placer.place(newcomer, tree)
        except Rejected:
            assert outline(tree) == before
            continue
        check_tree(tree)
        assert takes_applications(leaf)
        assert all(is_queue_name(name) for name in leaf.path.split("."))
        if leaf.path == RECOVERY_PATH:
            assert newcomer.tags["application.create.force"] == "true"
        else:
            assert may_submit(leaf, newcomer.user)


HEAD = "application rejected: no placement rule matched: "


def reasons(placer: Placer, queues: str, app: NewApplication) -> str:
    """The reasons for a rejection, which must be equal in a dry run and a submission."""
    tree = tree_of(queues)
    with pytest.raises(Rejected) as dry:
        placer.rule_for(app, tree)
    with pytest.raises(Rejected) as real:
        placer.place(app, tree)
    assert str(real.value) == f"failed to place application app: {dry.value}"
    return str(dry.value)


def application(**tags: str) -> NewApplication:
    """An application of user ann that names no queue."""
    return NewApplication(app_id=AppId("app"), user=UserGroup("ann", ("ann",)), tags=tags)


def test_the_reason_of_each_rule_is_reported() -> None:
    """A rejection lists each rule with number, kind, value and queue, and why its queue was not used."""
    rules = [
        PlacementRuleConfig(name="tag", value="namespace"),
        PlacementRuleConfig(name="provided"),
        PlacementRuleConfig(name="fixed", value="shut"),
        PlacementRuleConfig(name="user", create=True, parent=PlacementRuleConfig(name="user")),
    ]
    queues = "- {name: root, submitacl: bob, queues: [{name: shut}]}"
    assert reasons(Placer(rules), queues, application(namespace="a")) == (
        f"{HEAD}rule 1 (tag namespace): root.a does not exist and create is false; "
        "rule 2 (provided): no queue given; "
        "rule 3 (fixed shut): root.shut is closed to user ann; "
        "rule 4 (user): its parent rule (user): root.ann does not exist and create is false"
    )


def test_the_number_of_reported_rules_is_bounded() -> None:
    """Of a thousand rules a rejection lists the first, and the number of further rules."""
    rules = [PlacementRuleConfig(name="fixed", value=f"{'x' * 60}{n}") for n in range(1_000)]
    text = reasons(Placer(rules), "- {name: root}", application())
    assert len(text) < MAX_REASONS + 200
    assert text.endswith(" more rules")
    told = text.count("does not exist")
    assert text.endswith(f"and {1_000 - told} more rules")


def test_a_long_path_is_cut_at_its_start() -> None:
    """A rejection shows only the end of a very long path, which distinguishes it from other paths."""
    rule = PlacementRuleConfig(name="fixed", value=".".join(["y" * 60] * 16 + ["end"]))
    text = reasons(Placer([rule]), "- {name: root}", application())
    assert len(text) < MAX_REASONS + 200
    assert ".end does not exist and create is false" in text
