"""An API server that fails, throttles, forgets and forbids."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from licorne_server.store.coordination.kubernetes import KubernetesStore
from licorne_server.store.coordination.kubernetes import api as product
from licorne_server.store.coordination.kubernetes.api import Turns
from licorne_server.store.coordination.kubernetes.objects import KIND, RECORD
from licorne_server.store.documents.documents import Conflict, Document, StoreError
from support.coordination.api_server import ApiServer, Fault
from support.coordination.backends import insisted, member, present, rm, until, watching
from support.coordination.kubernetes import KubernetesBackend

A = member("a")
ONE = rm("one")


@pytest.fixture
async def store(kubernetes_backend: KubernetesBackend) -> AsyncIterator[KubernetesStore]:
    """The access of a member that has joined."""
    made = kubernetes_backend.open()
    await made.join(A)
    yield made
    await made.close()


@pytest.fixture
async def unhurried(kubernetes_backend: KubernetesBackend) -> AsyncIterator[KubernetesStore]:
    """The access of a member that has joined, with very long intervals of reads and leases."""
    made = kubernetes_backend.open(reread=600.0, lease=600.0)
    await made.join(A)
    yield made
    await made.close()


@pytest.mark.parametrize("call", ["read", "write"])
async def test_a_throttled_call_is_repeated_after_the_requested_time(
    store: KubernetesStore, api: ApiServer, call: str
) -> None:
    """A throttled call was not carried out, so even a write is repeated; concurrent callers wait, too."""
    begun = time.monotonic()
    fault = api.fail("*", "configmaps", status=429, headers={"Retry-After": "1"}, reason="TooManyRequests")
    if call == "read":
        assert await store.read("shared/one") == Document()
    else:
        assert await store.compare_and_set("shared/one", b"1", 0) > 0
    assert fault.seen == 1
    assert time.monotonic() - begun >= 1


async def test_a_renewal_is_not_delayed_beyond_its_lease(
    kubernetes_backend: KubernetesBackend, api: ApiServer
) -> None:
    """If a server requests a pause of an hour, the next call still follows after the time-out of a call."""
    store = kubernetes_backend.open(lease=4.0)
    await store.join(A)
    api.fail("update", status=429, headers={"Retry-After": "3600"}, reason="TooManyRequests")
    with pytest.raises(StoreError, match="429"):
        await store.renew(A)
    with pytest.raises(StoreError, match="wants no calls"):
        await store.renew(A)
    await insisted(lambda: store.renew(A))
    assert api.count("update", "leases") == 2
    await store.close()


async def test_a_write_of_unknown_outcome_is_not_repeated(store: KubernetesStore, api: ApiServer) -> None:
    """After 503 a read is repeated, and a write fails, because it may have been carried out."""
    api.fail("get", "configmaps", status=503, headers={"Retry-After": "1"}, reason="ServiceUnavailable")
    assert await store.read("shared/one") == Document()
    assert api.count("get", "configmaps") == 2
    how = {"status": 503, "headers": {"Retry-After": "1"}, "carried_out": True}
    api.fail("create", "configmaps", reason="ServiceUnavailable", **how)
    with pytest.raises(StoreError, match="503"):
        await store.compare_and_set("shared/one", b"1", 0)
    assert api.count("create", "configmaps") == 1
    assert (await store.read("shared/one")).value == b"1"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault("get", status=500), "get configmaps.*500: a fault of the test"),
        # The HTTP client repeats a read once.
        (Fault("get", cut=True, times=2), "get configmaps"),
        (Fault("get", body=b"<html>"), "answered no JSON"),
        (Fault("get", body=b"[1]"), "answered no object"),
        (Fault("get", body=b"{}"), "resourceVersion"),
        (Fault("get", body=b'{"metadata": {"resourceVersion": "x1"}}'), "no number: 'x1'"),
        (Fault("get", body=b'{"metadata": {"resourceVersion": "1"}, "binaryData": {"value": 1}}'), "no text"),
        (Fault("get", body=b'{"metadata": {"resourceVersion": "1"}}'), "annotation"),
        (Fault("get", body=b" " * (product.MAX_BODY + 1)), "more than"),
    ],
    ids=lambda value: "" if isinstance(value, Fault) else value,
)
async def test_an_invalid_answer_is_an_error_that_names_the_call(
    store: KubernetesStore, api: ApiServer, fault: Fault, message: str
) -> None:
    """Whatever the server answers, the caller gets a StoreError, and the next call works."""
    api.faults.append(fault)
    with pytest.raises(StoreError, match=message):
        await store.read("shared/one")
    assert await store.read("shared/one") == Document()


async def test_calls_time_out(kubernetes_backend: KubernetesBackend, api: ApiServer) -> None:
    """A call times out after a quarter of the lease, so that the member can try again."""
    store = kubernetes_backend.open(lease=2.0)
    pause = asyncio.Event()
    api.fail("get", "configmaps", hold=pause)
    with pytest.raises(StoreError, match=r"did not answer within 0\.5 s"):
        await store.read("shared/one")
    pause.set()
    await store.close()


@pytest.mark.parametrize(
    ("verb", "plural", "name"),
    [
        ("update", "leases", "leases.coordination.k8s.io"),
        ("get", "configmaps", "configmaps"),
    ],
)
async def test_a_missing_right_is_named(
    store: KubernetesStore, api: ApiServer, verb: str, plural: str, name: str
) -> None:
    """The error names the verb and the resource that the Role lacks."""
    api.forbidden.add((verb, plural))
    with pytest.raises(StoreError, match=f"forbids this member to {verb} {name}: .*Role with that verb"):
        await (store.renew(A) if plural == "leases" else store.read("shared/one"))


async def test_a_missing_right_to_read_is_logged_once(store: KubernetesStore, api: ApiServer) -> None:
    """A member without the right to list logs it, and keeps trying."""
    api.forbidden.add(("list", "leases"))
    async with watching(store) as snapshots:
        with capture_logs() as logged:
            first = asyncio.ensure_future(anext(snapshots))
            await api.until(lambda: api.count("list", "leases") >= 3)
            api.forbidden.clear()
            assert A.id in (await first).members
    assert ["forbids this member to list leases" in line["reason"] for line in logged] == [True]


@pytest.mark.parametrize("how", ["compacted", "ended", "refused"])
async def test_the_end_of_a_watch_causes_a_complete_read(
    unhurried: KubernetesStore, api: ApiServer, how: str
) -> None:
    """After 410, and after any other end of a watch, all objects are read again at once."""
    async with watching(unhurried) as snapshots:
        await until(snapshots, lambda _: True)
        await api.until(lambda: api.count("watch", "leases") >= 1)
        lists = api.count("list", "leases")
        api.losing = True
        await unhurried.claim(ONE, A.id, None, 0)
        if how == "refused":
            api.fail("watch", "leases", status=410, reason="Expired")
        if how == "compacted":
            api.cluster.compact()
        api.end_watches()
        await until(snapshots, lambda seen: ONE in seen.rms)
        assert api.count("list", "leases") > lists


async def test_a_410_inside_a_watch_ends_it(unhurried: KubernetesStore, api: ApiServer) -> None:
    """A watch from a compacted version ends with an event, and not with a status."""
    pause = asyncio.Event()
    api.fail("watch", "leases", hold=pause)
    async with watching(unhurried) as snapshots:
        await until(snapshots, lambda _: True)
        await unhurried.claim(ONE, A.id, None, 0)
        api.cluster.compact()
        pause.set()
        await until(snapshots, lambda seen: ONE in seen.rms)
        assert api.count("list", "leases") == 2


async def test_lost_events_are_found_by_the_next_read(store: KubernetesStore, api: ApiServer) -> None:
    """A watch that loses all events delays changes, and hides none."""
    api.losing = True
    async with watching(store) as snapshots:
        await until(snapshots, lambda _: True)
        claimed = await store.claim(ONE, A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {ONE: claimed})
        await store.leave()
        await until(snapshots, lambda seen: not seen.members)


async def test_events_arrive_between_two_reads(unhurried: KubernetesStore, api: ApiServer) -> None:
    """An event of a watch is seen without another read."""
    async with watching(unhurried) as snapshots:
        await until(snapshots, lambda seen: A.id in seen.members)
        claimed = await unhurried.claim(ONE, A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {ONE: claimed})
        api.cluster.remove("leases", "rm.one.")
        await until(snapshots, lambda seen: not seen.rms)
        assert api.count("list", "leases") == 1


async def test_renewals_of_others_cause_no_snapshots(unhurried: KubernetesStore, api: ApiServer) -> None:
    """Renewals of other members do not cause snapshots."""
    async with watching(unhurried) as snapshots:
        await until(snapshots, lambda seen: A.id in seen.members)
        for _ in range(20):
            await unhurried.renew(A)
        await unhurried.claim(ONE, A.id, None, 0)
        seen = await anext(snapshots)
        assert ONE in seen.rms


async def test_a_list_of_many_pages_is_consistent(store: KubernetesStore, api: ApiServer) -> None:
    """All pages have the state of one moment; an expired page restarts the list."""
    keys = {f"shared/{number}" for number in range(product.CONFIG_MAPS.page * 2 + 3)}
    for key in keys:
        await store.compare_and_set(key, b"1", 0)
    expired = api.fail("list", "configmaps", times=0, status=410, reason="Expired")
    assert set((await present(store)).documents) == keys
    pages = api.count("list", "configmaps")
    assert pages >= 3

    expired.times = 1
    assert set((await present(store)).documents) == keys
    assert expired.seen == 1


async def test_a_list_that_is_too_long_is_refused(
    store: KubernetesStore, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is too full cannot fill the memory of a member."""
    monkeypatch.setattr(product, "MAX_OBJECTS", 3)
    for number in range(4):
        await store.claim(rm(str(number)), A.id, None, 0)
    async with watching(store) as snapshots:
        first = asyncio.ensure_future(anext(snapshots))
        await api.until(lambda: api.count("list", "leases") >= 2)
        assert not first.done()
        api.cluster.remove("leases", "rm.0.")
        api.cluster.remove("leases", "rm.1.")
        assert len((await first).rms) == 2


async def test_an_endless_event_closes_the_watch(
    store: KubernetesStore, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch whose line has no end is closed, and the next read has everything."""
    monkeypatch.setattr(product, "MAX_EVENT", 1000)
    api.fail("watch", "leases", times=2, body=b"x" * 5000)
    async with watching(store) as snapshots:
        await until(snapshots, lambda _: True)
        claimed = await store.claim(ONE, A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {ONE: claimed})


@pytest.mark.parametrize(
    "record",
    ["", "no JSON", "[]", '{"owner": 1}', json.dumps({"format": 1, "owner": "", "epoch": -1}), "{" * 5000],
)
async def test_a_damaged_object_is_left_out(store: KubernetesStore, api: ApiServer, record: str) -> None:
    """A damaged object is skipped, and nobody claims its RM."""
    two = await store.claim(rm("two"), A.id, None, 0)
    await store.claim(ONE, A.id, None, 0)
    api.cluster.edit(
        "leases", "rm.one.", lambda item: item["metadata"]["annotations"].update({RECORD: record})
    )
    assert (await present(store)).rms == {rm("two"): two}
    with pytest.raises(Conflict):
        await store.claim(ONE, A.id, None, 0)


async def test_an_unknown_label_is_left_out(store: KubernetesStore, api: ApiServer) -> None:
    """A foreign object with our label is no member."""
    await store.claim(ONE, A.id, None, 0)
    api.cluster.edit("leases", "rm.one.", lambda item: item["metadata"]["labels"].update({KIND: "thing"}))
    seen = await present(store)
    assert (set(seen.members), seen.rms) == ({A.id}, {})


async def test_other_deployments_in_the_namespace_are_ignored(
    store: KubernetesStore, kubernetes_backend: KubernetesBackend
) -> None:
    """Several deployments share a namespace under different names."""
    other = kubernetes_backend.open(name="other")
    await other.join(member("x"))
    await store.compare_and_set("shared/one", b"1", 0)
    seen = await present(other)
    assert (set(seen.members), seen.documents) == ({"x"}, {})
    assert await other.read("shared/one") == Document()
    await other.close()


async def test_writes_wait_for_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of writes are admitted at once, others later, and none that would wait for too long."""
    monkeypatch.setattr(product, "_WRITES_AT_ONCE", 10)
    turns = Turns()
    begun = time.monotonic()
    await asyncio.gather(*(turns.wait(60) for _ in range(20)))
    assert time.monotonic() - begun >= 8 / 50
    with pytest.raises(StoreError, match="too many writes"):
        await asyncio.gather(*(turns.wait(0.5) for _ in range(1000)))


async def test_a_server_that_returns_is_read_again(store: KubernetesStore, api: ApiServer) -> None:
    """While the server is down there are no snapshots; afterwards they continue without a new watch."""
    async with watching(store) as snapshots:
        await until(snapshots, lambda _: True)
        api.down = True
        api.end_watches()
        with pytest.raises(StoreError):
            await store.renew(A)
        api.down = False
        claimed = await store.claim(ONE, A.id, None, 0)
        await until(snapshots, lambda seen: seen.rms == {ONE: claimed})
