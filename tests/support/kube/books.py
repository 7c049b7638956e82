"""The differences between the state of Licorne and the pods and nodes of the API server."""

import asyncio
from collections.abc import Mapping

from licorne import LicorneError, State
from support.kube.amounts import Amounts, amounts, has_ended, taken_by
from support.kube.ledger import Ledger
from support.patience import PATIENCE

POLL_SECONDS = 0.1
_NAMES = {"cpu": "vcore"}

Books = dict[str, tuple[object, ...]]
"""The values of nodes, and of pods by their uids, that must be equal on both sides."""


async def check_books(ledger: Ledger, state: State, scheduler: str) -> None:
    """Wait until Licorne has exactly the nodes and pods of the API server.

    Raises:
        AssertionError: They differ at the end of the wait; the error has the differences.
    """
    differs = ["nothing was read"]
    try:
        async with asyncio.timeout(PATIENCE):
            while differs:
                try:
                    licorne = await _of_licorne(state)
                    differs = _differences(of_api_server(ledger, scheduler), licorne)
                except LicorneError as error:
                    differs = [str(error)]
                if differs:
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError("\n".join(["the books differ:", *differs])) from None


def of_api_server(ledger: Ledger, scheduler: str) -> Books:
    """The state that follows from the API server's pods and nodes."""
    books: Books = {}
    ours: dict[str, Amounts] = {name: {} for name in ledger.nodes}
    others: dict[str, Amounts] = {name: {} for name in ledger.nodes}
    for uid, pod in ledger.pods.items():
        node = pod["spec"].get("nodeName")
        is_ours = pod["spec"]["schedulerName"] == scheduler
        is_elsewhere = node not in ledger.nodes if node else not is_ours
        if has_ended(pod) or is_elsewhere:
            continue
        if is_ours:
            books[uid] = (node or "waits", _named(taken_by(pod)))
        if node is not None:
            _add((ours if is_ours else others)[node], taken_by(pod))
    for name, node in ledger.nodes.items():
        has = _named(amounts(node["status"]["allocatable"]))
        books[name] = (has, _named(ours[name]), _named(others[name]))
    return books


async def _of_licorne(state: State) -> Books:
    books: Books = {}
    for application in await state.applications():
        found = await state.application(application.application_id, limit=10_000)
        for ask in found.asks:
            books[ask.allocation_key] = ("waits", dict(ask.resources))
        for allocation in found.allocations:
            books[allocation.allocation_key] = (allocation.node_id, dict(allocation.resources))
    for node in await state.nodes():
        books[node.node_id] = (dict(node.capacity), _filled(node.allocated), _filled(node.occupied))
    return books


def _differences(theirs: Books, licornes: Books) -> list[str]:
    return [
        f"{key}: {theirs.get(key, 'nothing')} at the API server, {licornes.get(key, 'nothing')} in Licorne"
        for key in sorted(theirs.keys() | licornes.keys())
        if theirs.get(key) != licornes.get(key)
    ]


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _named(of_kubernetes: Amounts) -> dict[str, int]:
    """Amounts by the names of the shim."""
    return {_NAMES.get(name, name): amount for name, amount in of_kubernetes.items() if amount}


def _filled(of_licorne: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in of_licorne.items() if amount}
