"""Accounts of usage, compared with the settings of queues and with the books."""

from collections.abc import Callable, Mapping

from licorne_core.extensions.fair_memory import NAME
from licorne_core.extensions.fair_memory.decayed import Decayed
from licorne_core.model.queues.queue import Queue
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.resources import Resources, sum_of, without_zeros


def check_accounts(accounts: Mapping[Queue, Decayed | None], *, settled: bool) -> None:
    """Compare the queues that have accounts with the settings, and their amounts with the books.

    Raises:
        InvariantBroken: a setting or an amount differs.
    """
    for queue, account in accounts.items():
        wanted = queue.parent is not None and bool(queue.parent.settings.of(NAME))
        if settled and wanted != (account is not None):
            raise InvariantBroken(f"F2: queue {queue.path} has {account}")
        used = without_zeros(queue.allocated)
        if account is not None and account.amounts != used:
            raise InvariantBroken(f"F1: queue {queue.path}: remembers {account.amounts}, not {used}")


def check_users(accounts: Mapping[Queue, Callable[[str], Decayed | None]]) -> None:
    """Check that the account of each user in a leaf has the sum over the user's applications.

    Raises:
        InvariantBroken: an amount differs.
    """
    for leaf, account_of in accounts.items():
        users: dict[str, Resources] = {}
        for app in leaf.applications.values():
            sizes = (users.get(app.user.user, {}), app.allocated, app.placeholder_allocated)
            users[app.user.user] = without_zeros(sum_of(sizes))
        for user, booked in users.items():
            account = account_of(user)
            known = {} if account is None else account.amounts
            if known != booked:
                raise InvariantBroken(f"F1: user {user} in {leaf.path}: remembers {known}, not {booked}")
