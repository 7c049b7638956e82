"""Message of a wait that timed out: the pending asks, and the server's explanations."""

import asyncio

from licorne import Client, LicorneError

EXPLAINED = 30
"""Asks that the server is asked about."""
QUOTED = 3
"""Reasons quoted, at most."""
NAMED = 10
"""Asks that are named."""
PATIENCE = 2.0
"""Seconds for all answers of the server together."""


async def pending_asks(client: Client) -> str:
    """The asks of the client that wait, and why the first of them do: a line for each reason.

    Empty if none waits. It raises nothing: what cannot be found out is said instead.
    """
    waiting = [key for key, known in client.cache.asks.items() if not known.node_id]
    if not waiting:
        return ""
    names = ", ".join(waiting[:NAMED])
    more = f" and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
    lines = [f"\n{len(waiting)} asks are pending: {names}{more}"]
    asked = waiting[:EXPLAINED]
    by_reason: dict[str, list[str]] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            for key in asked:
                by_reason.setdefault(await _why(client, key), []).append(key)
    except TimeoutError:
        explained = sum(map(len, by_reason.values()))
        lines.append(f"  the server did not explain {len(asked) - explained} of them in time")
    # The most frequent first; of those that are as frequent the one that came first.
    reasons = sorted(by_reason, key=lambda reason: -len(by_reason[reason]))
    for reason in reasons[:QUOTED]:
        key, *others = by_reason[reason]
        lines.append(f"  {key}{f' and {len(others)} more' if others else ''}: {reason}")
    rest = sum(len(by_reason[reason]) for reason in reasons[QUOTED:])
    if rest:
        lines.append(f"  {rest} for {len(reasons) - QUOTED} other reasons")
    if len(waiting) > EXPLAINED:
        lines.append(f"  {len(waiting) - EXPLAINED} were not looked at")
    return "\n".join(lines)


async def _why(client: Client, key: str) -> str:
    try:
        answer = await client.explain(key)
    except LicorneError as error:
        return f"not explained, {type(error).__name__}: {error}"
    return f"{answer.verdict}: {answer.summary}"
