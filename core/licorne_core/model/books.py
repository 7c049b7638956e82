"""The books: amounts of a booking on a node, in queues, users and groups, and an application.

A booking is pure arithmetic. Its inverse, in any order with others, restores the books exactly. Nothing here
wakes an item, raises a version or voids a result: the caller books first, and then reports the change. So a
what-if query can book and unbook on the live books without side effects (DESIGN § 2).
"""

from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.values.app_states import AppState
from licorne_core.values.resources import Items, charge, refund


def book(items: Items, node: Node, app: Application, *, placeholder: bool = False) -> None:
    """Book the amounts on the node, in every quota of the application, and in the application.

    A quota is a queue from the leaf up to root, or a limit of a user or group in one of them. Usage
    of users and groups without a limit is not booked: it is the sum over their applications. Usage
    of a `placeholder` is booked separately in the application (spec § 6.2).
    """
    available = node.available
    for name, value in items:
        available[name] = available.get(name, 0) - value
    totals = app.placeholder_allocated if placeholder else app.allocated
    for name, value in items:
        totals[name] = totals.get(name, 0) + value
    for quota in app.quotas:
        totals = quota.allocated
        for name, value in items:
            totals[name] = totals.get(name, 0) + value


def book_in_quotas(items: Items, app: Application, *, placeholder: bool = False) -> None:
    """Book the amounts as `book` does, but on no node."""
    charge(app.placeholder_allocated if placeholder else app.allocated, items)
    for quota in app.quotas:
        charge(quota.allocated, items)


def unbook_in_quotas(items: Items, app: Application, *, placeholder: bool = False) -> None:
    """Undo `book_in_quotas`."""
    for quota in app.quotas:
        refund(quota.allocated, items)
    refund(app.placeholder_allocated if placeholder else app.allocated, items)


def book_on_node(items: Items, node: Node) -> None:
    """Book the amounts on the node only."""
    available = node.available
    for name, value in items:
        available[name] = available.get(name, 0) - value


def unbook_on_node(items: Items, node: Node) -> None:
    """Undo `book_on_node`."""
    available = node.available
    for name, value in items:
        left = available[name] + value
        if left or name in node.capacity:
            available[name] = left
        else:
            del available[name]


def book_foreign(before: Items, after: Items, node: Node) -> None:
    """Replace the amounts of a foreign allocation on the node (spec § 7.3)."""
    refund(node.occupied, before)
    charge(node.occupied, after)
    unbook_on_node(before, node)
    book_on_node(after, node)


def book_preempting(items: Items, node: Node, app: Application) -> None:
    """Book the amounts of a victim, noticed or being stopped, as preempting (spec § 9.4)."""
    charge(node.preempting, items)
    for quota in app.quotas:
        charge(quota.preempting, items)


def unbook_preempting(items: Items, node: Node, app: Application) -> None:
    """Undo `book_preempting`, after the victim has ended or is spared."""
    refund(node.preempting, items)
    for quota in app.quotas:
        refund(quota.preempting, items)


def book_promise(items: Items, app: Application) -> None:
    """Promise the amounts to an ask of the application, in its queues and for its user and group."""
    for quota in app.quotas:
        charge(quota.promised, items)


def unbook_promise(items: Items, app: Application) -> None:
    """Undo `book_promise`."""
    for quota in app.quotas:
        refund(quota.promised, items)


def book_demand(items: Items, app: Application, leaf: Queue) -> None:
    """Book the amounts as pending in the application, in its leaf and in the queues above it."""
    totals = app.pending_total
    for name, value in items:
        totals[name] = totals.get(name, 0) + value
    for queue in leaf.lineage:
        totals = queue.pending
        for name, value in items:
            totals[name] = totals.get(name, 0) + value


def unbook_demand(items: Items, app: Application, leaf: Queue) -> None:
    """Undo `book_demand`; the hot path: `refund` written out."""
    totals = app.pending_total
    for name, value in items:
        left = totals[name] - value
        if left:
            totals[name] = left
        else:
            del totals[name]
    for queue in leaf.lineage:
        totals = queue.pending
        for name, value in items:
            left = totals[name] - value
            if left:
                totals[name] = left
            else:
                del totals[name]


def note_allocating(app: Application) -> None:
    """Update the queues' sets of accepted applications that are about to run (spec § 4.12)."""
    leaf = app.leaf
    if app.state is AppState.ACCEPTED and app.is_allocating:
        for queue in leaf.lineage:
            queue.allocating[app.app_id] = None
    elif app.app_id in leaf.allocating:
        for queue in leaf.lineage:
            del queue.allocating[app.app_id]
