"""What the text of a rejection says of each placement rule."""

import pytest

from licorne_core.config.schema import PlacementRuleConfig
from licorne_core.messages.commands import NewApplication
from licorne_core.model.placement import MAX_REASONS, Placer
from licorne_core.values.errors import Rejected
from licorne_core.values.ids import AppId, UserGroup
from support.core.trees import tree_of

HEAD = "application rejected: no placement rule matched: "


def refusal(placer: Placer, queues: str, app: NewApplication) -> str:
    """Why the application is rejected: what a dry run and a submission say alike."""
    tree = tree_of(queues)
    with pytest.raises(Rejected) as dry:
        placer.rule_for(app, tree)
    with pytest.raises(Rejected) as real:
        placer.place(app, tree)
    assert str(real.value) == f"failed to place application app: {dry.value}"
    return str(dry.value)


def application(**tags: str) -> NewApplication:
    """An application of ann's that names no queue."""
    return NewApplication(app_id=AppId("app"), user=UserGroup("ann", ("ann",)), tags=tags)


def test_each_rule_says_what_it_gave() -> None:
    """The rule's number, kind and value, its queue, and why that was not taken."""
    rules = [
        PlacementRuleConfig(name="tag", value="namespace"),
        PlacementRuleConfig(name="provided"),
        PlacementRuleConfig(name="fixed", value="shut"),
        PlacementRuleConfig(name="user", create=True, parent=PlacementRuleConfig(name="user")),
    ]
    queues = "- {name: root, submitacl: bob, queues: [{name: shut}]}"
    assert refusal(Placer(rules), queues, application(namespace="a")) == (
        f"{HEAD}rule 1 (tag namespace): root.a does not exist and create is false; "
        "rule 2 (provided): no queue given; "
        "rule 3 (fixed shut): root.shut is closed to user ann; "
        "rule 4 (user): its parent rule (user): root.ann does not exist and create is false"
    )


def test_reasons_are_bounded() -> None:
    """Of a thousand rules the first are told, and how many there are more."""
    rules = [PlacementRuleConfig(name="fixed", value=f"{'x' * 60}{n}") for n in range(1_000)]
    text = refusal(Placer(rules), "- {name: root}", application())
    assert len(text) < MAX_REASONS + 200
    assert text.endswith(" more rules")
    told = text.count("does not exist")
    assert text.endswith(f"and {1_000 - told} more rules")


def test_a_long_path_is_shortened() -> None:
    """Of a path of thousands of characters the end is told, where the levels differ."""
    rule = PlacementRuleConfig(name="fixed", value=".".join(["y" * 60] * 16 + ["end"]))
    text = refusal(Placer([rule]), "- {name: root}", application())
    assert len(text) < MAX_REASONS + 200
    assert ".end does not exist and create is false" in text
