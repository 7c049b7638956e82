"""A server that has so many of everything: what readers meet at the bounds, in small."""

from collections.abc import Iterator
from dataclasses import replace

from licorne_core.config import submitted
from licorne_core.messages.commands import Command, RegisterRm
from licorne_core.values.asks import Ask
from licorne_core.values.ids import RmId
from licorne_server.serving.app import Server
from support.core.builders import app, apps, ask, asks, node, nodes, register, reload, remove_apps
from support.peers.shim import eventually

USER, GROUP = "ann", "staff"
BIG = 10**12
PARTITIONS = 50
"""Of each of the first RMs beside that with everything; so many times as many RMs have them."""


def _commands(first: int, n: int) -> Iterator[Command]:
    """An RM with so many queues, nodes, applications, asks and allocations, and others beside.

    Of all of them it has the first ones already.
    """
    names = ", ".join(f"u{number}" for number in range(n))
    queues = ", ".join(["{name: one}", *(f"{{name: q{number}}}" for number in range(n))])
    many = f"{{limit: many, users: [{names}], groups: [{GROUP}], maxapplications: 1000000}}"
    config = (
        "partitions:\n"
        "  - name: default\n"
        "    placementrules: [{name: provided, create: true}]\n"
        "    queues:\n"
        f"      - {{name: root, submitacl: '*', limits: [{many}], queues: [{queues}]}}\n"
    )
    extra = {f"key{number}": "value" for number in range(n)}
    new = range(first, n)
    if first:
        yield reload(config, extra=extra)
    else:
        yield register(config, extra=extra)
        yield nodes(node("big", vcore=BIG))
        yield apps(app("one", "root.one", user=USER, groups=[GROUP]))
        yield asks(ask("one", "beside", vcore=1, gpu=1))
    yield nodes(*(node(f"n{number}", vcore=11, gpu=1) for number in new))
    yield nodes(*(node(f"lost{number}", partition="nowhere", vcore=10) for number in new))
    yield apps(*(app(f"a{number}", f"root.q{number}", user=USER, groups=[GROUP]) for number in new))
    yield apps(*(app(f"o{number}", "root.one", user=f"v{number}") for number in new))
    yield apps(*(app(f"r{number}", "root.one.below", user=USER) for number in new))
    yield apps(*(app(f"e{number}", "root.one", user=USER) for number in new))
    yield remove_apps(*(f"e{number}" for number in new))
    yield asks(
        *(ask("one", f"on{number}", vcore=1, on_node="big") for number in new),
        *(ask("one", f"fill{number}", vcore=10, on_node=f"n{number}") for number in new),
        *(_foreign(number) for number in new),
        *(ask("one", f"at{number}", vcore=5, required_node=f"n{number}") for number in new),
        *(ask("one", f"shared{number}", vcore=5, required_node="n0") for number in new),
        *(ask(f"a{number}", "own", vcore=5, required_node=f"n{number}") for number in new),
        *(ask("one", f"like{number}", vcore=2 * BIG) for number in new),
        *(ask("one", f"size{number}", vcore=2 * BIG + 1 + number) for number in new),
    )


def _others(first: int, n: int, rms: int) -> Iterator[Command]:
    """So many RMs with levels of the log; there are so many partitions that have nothing."""
    partitions = "".join(
        f"  - name: p{number}\n    queues: [{{name: root, submitacl: '*'}}]\n" for number in range(PARTITIONS)
    )
    many = submitted(f"partitions:\n{partitions}")
    one = submitted("partitions:\n  - name: default\n    queues: [{name: root}]\n")
    for number in range(first // PARTITIONS, rms if not first else n // PARTITIONS):
        yield RegisterRm(
            rm_id=RmId(f"x{number}"),
            config=many if number < n // PARTITIONS else one,
            extra_config={f"log.core.{part}.level": "DEBUG" for part in ("engine", "rms")},
        )


def _foreign(number: int) -> Ask:
    """What another scheduler runs on the big node."""
    return replace(ask("", f"f{number}", on_node="big", vcore=1), tags={"foreign": "static"})


async def fill(server: Server, n: int, rms: int, *, first: int = 0) -> None:
    """Let the server have so many of everything, of which it has the first, and of other RMs.

    The clock should stand still.
    """
    for command in (*_commands(first, n), *_others(first, n, rms)):
        await server.engine.submit(command)
    await eventually(lambda: not server.engine.busy)
