"""The shortage of a cluster, by size of the waiting asks."""

from licorne_core.extensions.autoscaler.reports import OutstandingShape, outstanding_shapes
from licorne_core.extensions.autoscaler.scan import Outstanding
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.queues.queue import Queue
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AppId, UserGroup
from licorne_core.values.slices import RUN

ROOT = Queue("root", None, is_leaf=False, managed=True)
A = Queue("a", ROOT, is_leaf=True, managed=True)
B = Queue("b", ROOT, is_leaf=True, managed=True)


def found(leaf: Queue, count: int, predicate: str | None = None, **size: int) -> Outstanding:
    """This number of outstanding asks of one size in one application."""
    owner = Application(AppId("app"), leaf.path, UserGroup("ann"), {}, 0.0)
    return Outstanding(
        leaf, owner, AskGroup(owner, (AskClass.of(size, predicate=predicate), "", False)), count
    )


def shapes_of(what: list[Outstanding]) -> list[OutstandingShape]:
    """The shapes of these outstanding asks, without the pauses."""
    return [shape for shape in outstanding_shapes(what) if shape is not None]


def test_asks_are_counted_by_size_and_queue() -> None:
    """Asks of one size share an entry, also over queues and with or without a predicate."""
    shapes = shapes_of(
        [found(A, 3, vcore=1), found(B, 2, "gpu only", vcore=1), found(A, 4, vcore=1, memory=0)]
    )
    [shape] = shapes
    assert shape.resources == {"vcore": 1}
    assert (shape.count, shape.queues) == (9, {"root.a": 7, "root.b": 2})


def test_the_list_of_sizes_is_made_with_pauses() -> None:
    """There is a pause for each group of asks, and for each part of the sizes that is sorted."""
    what = [found(A, number % 7, vcore=1 + number) for number in range(2_500)]
    steps = list(outstanding_shapes(what))
    pauses = [step for step in steps if step is None]
    assert len(pauses) == 2_500 + -(-2_500 // RUN)
    assert steps[: len(pauses)] == pauses
    shapes = [(shape.count, shape.resources["vcore"]) for shape in steps if shape is not None]
    assert shapes == sorted(shapes, key=lambda shape: (-shape[0], shape[1]))
    assert len(shapes) == sum(outstanding.asks > 0 for outstanding in what)
