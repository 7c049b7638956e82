"""Settings of queues by configuration, parents and templates."""

import pytest

from licorne_core.config.schema import AppSortPolicy
from licorne_core.extensions.state_aware import POLICY
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.ids import QueuePath
from support.core.trees import ANN, queue_at, reload_tree, root_config, tree_of

# The example of the guide for queue configurations: a template at root, and another further down.
TEMPLATES = """
- name: root
  submitacl: '*'
  childtemplate:
    maxapplications: 10
    properties: {application.sort.policy: stateaware}
    resources:
      guaranteed: {vcore: 1000, memory: 1000}
      max: {vcore: 20000, memory: 600000}
  queues:
  - name: parent
    parent: true
    childtemplate:
      resources: {max: {vcore: 21000, memory: 610000}}
  - name: notemplate
    parent: true
"""
CORES = 1000


def created(tree: QueueTree, path: str) -> Queue:
    """Create a dynamic queue, and return it."""
    return tree.create(QueuePath(path), ANN)


@pytest.mark.row(46, 47)
def test_a_dynamic_leaf_has_the_nearest_template() -> None:
    """A dynamic leaf has only the nearest template above, and nothing of templates further up."""
    tree = tree_of(TEMPLATES)
    far = created(tree, "root.notemplate.sales")
    assert far.max == {"vcore": 20000 * CORES, "memory": 600000}
    assert far.guaranteed == {"vcore": 1000 * CORES, "memory": 1000}
    assert far.max_applications == 10
    assert far.settings.app_sort == POLICY
    near = created(tree, "root.parent.sales")
    assert near.max == {"vcore": 21000 * CORES, "memory": 610000}
    assert near.guaranteed is None
    assert near.max_applications == 0
    assert near.settings.app_sort is AppSortPolicy.FIFO


@pytest.mark.row(47)
def test_dynamic_parents_have_no_settings_of_the_template() -> None:
    """Dynamic parents between the template and a leaf have no limits of their own."""
    tree = tree_of(TEMPLATES)
    leaf = created(tree, "root.parent.region.sales")
    parent = queue_at(tree, "root.parent.region")
    assert parent.max is None
    assert parent.max_applications == 0
    assert not parent.properties
    assert leaf.max == {"vcore": 21000 * CORES, "memory": 610000}


@pytest.mark.row(33, 46)
def test_zeros_of_a_template_are_a_maximum_but_no_guarantee() -> None:
    """A maximum of zeros in a template forbids its types, and a guarantee of zeros counts as none."""
    tree = tree_of(
        "- {name: root, submitacl: '*', childtemplate: "
        "{maxapplications: 1, resources: {max: {memory: 0}, guaranteed: {memory: 0}}}, "
        "queues: [{name: a}]}"
    )
    leaf = created(tree, "root.x")
    assert (leaf.max, leaf.guaranteed, leaf.max_applications) == ({"memory": 0}, None, 1)


@pytest.mark.row(46)
def test_a_managed_leaf_ignores_the_template() -> None:
    """A configured leaf has no setting of a template."""
    tree = tree_of(TEMPLATES.replace("- name: notemplate\n    parent: true", "- name: plain"))
    leaf = queue_at(tree, "root.plain")
    assert leaf.max is None
    assert leaf.template is None
    assert leaf.max_applications == 0


@pytest.mark.row(46)
def test_a_dynamic_leaf_inherits_no_properties() -> None:
    """A dynamic leaf without a template does not inherit the properties of its parent."""
    tree = tree_of(
        "- {name: a, parent: true, submitacl: '*', properties: {application.sort.policy: fair, color: red}}"
    )
    leaf = created(tree, "root.a.x")
    assert leaf.properties == {}
    assert leaf.settings.app_sort is AppSortPolicy.FIFO


@pytest.mark.row(52)
def test_a_changed_template_applies_to_existing_leaves() -> None:
    """A reload with another template changes existing dynamic leaves."""
    tree = tree_of(TEMPLATES)
    leaf = created(tree, "root.parent.region.sales")
    reload_tree(tree, root_config(TEMPLATES.replace("memory: 610000", "memory: 700000")))
    assert leaf.max == {"vcore": 21000 * CORES, "memory": 700000}
    without = TEMPLATES.replace("    childtemplate:\n      resources: {max: {vcore: 21000", "#")
    reload_tree(tree, root_config(without))
    assert leaf.max == {"vcore": 20000 * CORES, "memory": 600000}
    assert leaf.max_applications == 10


@pytest.mark.row(33, 34)
def test_zeros_of_a_managed_queue_are_a_maximum_but_no_guarantee() -> None:
    """A maximum of zeros in a managed queue forbids its types, and a guarantee of zeros counts as none."""
    tree = tree_of("- {name: a, resources: {max: {memory: 0}, guaranteed: {memory: 0}}}")
    leaf = queue_at(tree, "root.a")
    assert leaf.max == {"memory": 0}
    assert leaf.guaranteed is None
