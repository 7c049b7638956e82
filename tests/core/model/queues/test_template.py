"""Settings of queues from configuration, parents and templates."""

import pytest

from licorne_core.config.schema import AppSortPolicy
from licorne_core.extensions.state_aware import POLICY
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.ids import QueuePath
from support.core.trees import ANN, queue_at, reload_tree, root_config, tree_of

# The sample of the queue configuration guide: a template at root and one further down.
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
    """A new dynamic queue."""
    return tree.create(QueuePath(path), ANN)


@pytest.mark.row(46, 47)
def test_dynamic_leaf_takes_the_nearest_template() -> None:
    """Without a template on the parent, root's counts; one nearer by replaces it whole."""
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
def test_dynamic_parent_only_hands_the_template_on() -> None:
    """Between template and leaf, created parents have no limits of their own."""
    tree = tree_of(TEMPLATES)
    leaf = created(tree, "root.parent.region.sales")
    parent = queue_at(tree, "root.parent.region")
    assert parent.max is None
    assert parent.max_applications == 0
    assert not parent.properties
    assert leaf.max == {"vcore": 21000 * CORES, "memory": 610000}


@pytest.mark.row(33, 46)
def test_template_of_zeros() -> None:
    """In a template, a maximum of zeros forbids its types, and a guarantee of zeros is none."""
    tree = tree_of(
        "- {name: root, submitacl: '*', childtemplate: "
        "{maxapplications: 1, resources: {max: {memory: 0}, guaranteed: {memory: 0}}}, "
        "queues: [{name: a}]}"
    )
    leaf = created(tree, "root.x")
    assert (leaf.max, leaf.guaranteed, leaf.max_applications) == ({"memory": 0}, None, 1)


@pytest.mark.row(46)
def test_template_is_not_for_managed_leaves() -> None:
    """A configured leaf uses nothing of a template."""
    tree = tree_of(TEMPLATES.replace("- name: notemplate\n    parent: true", "- name: plain"))
    leaf = queue_at(tree, "root.plain")
    assert leaf.max is None
    assert leaf.template is None
    assert leaf.max_applications == 0


@pytest.mark.row(46)
def test_dynamic_leaf_inherits_no_properties() -> None:
    """A dynamic leaf has the template's properties and none of its parent's."""
    tree = tree_of(
        "- {name: a, parent: true, submitacl: '*', properties: {application.sort.policy: fair, color: red}}"
    )
    leaf = created(tree, "root.a.x")
    assert leaf.properties == {}
    assert leaf.settings.app_sort is AppSortPolicy.FIFO


@pytest.mark.row(52)
def test_reload_reaches_dynamic_leaves_through_the_template() -> None:
    """A changed template applies to existing dynamic leaves."""
    tree = tree_of(TEMPLATES)
    leaf = created(tree, "root.parent.region.sales")
    reload_tree(tree, root_config(TEMPLATES.replace("memory: 610000", "memory: 700000")))
    assert leaf.max == {"vcore": 21000 * CORES, "memory": 700000}
    without = TEMPLATES.replace("    childtemplate:\n      resources: {max: {vcore: 21000", "#")
    reload_tree(tree, root_config(without))
    assert leaf.max == {"vcore": 20000 * CORES, "memory": 600000}
    assert leaf.max_applications == 10


@pytest.mark.row(33, 34)
def test_zeros_of_a_managed_queue() -> None:
    """In a managed queue, a maximum of zeros is in force, and a guarantee of zeros is none."""
    tree = tree_of("- {name: a, resources: {max: {memory: 0}, guaranteed: {memory: 0}}}")
    leaf = queue_at(tree, "root.a")
    assert leaf.max == {"memory": 0}
    assert leaf.guaranteed is None
