"""The simulated API server of tests answers like a real one to the same requests."""

import base64
import copy
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from licorne_server.store.coordination.kubernetes.objects import (
    SECRET,
    document_object,
    member_lease,
    rm_lease,
)
from licorne_server.store.coordination.store import MemberId, Ownership
from licorne_tools.kube.api import Api, ApiRefused, Json
from licorne_tools.kube.plane import Plane
from support.coordination.api_cluster import NAMESPACE
from support.coordination.api_server import TOKEN, ApiServer, served
from support.coordination.backends import member, rm

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE = (200, "")
BAD, INVALID, CONFLICT = (400, "BadRequest"), (422, "Invalid"), (409, "Conflict")
MISSING = (404, "NotFound")
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An API server, and a namespace of the test in it."""

    api: Api
    anybody: Api
    """A client without a token."""
    stranger: Api
    """A client with an unknown token."""
    namespace: str

    def path(self, plural: str, name: str = "", namespace: str = "") -> str:
        """The path of a kind, or of an object."""
        group = "/apis/coordination.k8s.io/v1" if plural == "leases" else "/api/v1"
        path = f"{group}/namespaces/{namespace or self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    async def create(self, name: str, spec: Json | None = None, **metadata: Any) -> Json:
        """Create a Lease."""
        return await self.api.create(self.path("leases"), lease(name, spec, **metadata))

    async def replace(self, name: str, item: Json, plural: str = "leases") -> Json:
        """Replace an object."""
        return await self.api.replace(self.path(plural, name), item)


@pytest.fixture(params=["played", pytest.param("real", marks=pytest.mark.kube)])
def real(request: pytest.FixtureRequest) -> Plane | None:
    """The control plane, or None for the simulation."""
    if request.param == "played":
        return None
    plane: Plane = request.getfixturevalue("plane")
    return plane


@pytest_asyncio.fixture(loop_scope="session")
async def server(real: Plane | None) -> AsyncIterator[Server]:
    """An API server of each kind."""
    async with AsyncExitStack() as stack:

        async def opened(token: str) -> Api:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            # The real one has a certificate of its own, and the simulation has none.
            connector = aiohttp.TCPConnector(ssl=False)
            session = aiohttp.ClientSession(headers=headers, connector=connector)
            return Api(await stack.enter_async_context(session), url)

        if real is None:
            url, token = await stack.enter_async_context(served(ApiServer())), TOKEN
            namespace = NAMESPACE
        else:
            url, token, namespace = real.url, real.token, f"played-{uuid4().hex[:8]}"
            await real.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield Server(
            api=await opened(token),
            anybody=await opened(""),
            stranger=await opened("the-token-of-nobody"),
            namespace=namespace,
        )


def lease(name: str, spec: Json | None = None, **metadata: Any) -> Json:
    """A Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }


def config_map(name: str, value: object, key: str = "value", **metadata: Any) -> Json:
    """A config map."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "binaryData": {key: value},
    }


def filled(size: int) -> str:
    """This number of bytes, in base64."""
    return base64.b64encode(b"x" * size).decode()


async def answer(call: Awaitable[Json]) -> tuple[int, str]:
    """The status and reason of a refusal, or that there was none."""
    try:
        await call
    except ApiRefused as refused:
        return refused.status, refused.reason
    return DONE


def names(found: Json) -> list[str]:
    """The names in a list."""
    return [item["metadata"]["name"] for item in found["items"]]


def version(found: Json) -> str:
    """The version of an object, or of a list."""
    text = found["metadata"]["resourceVersion"]
    assert isinstance(text, str)
    return text


CREATED: Mapping[str, tuple[Any, tuple[int, str]]] = {
    "no object": ([1], BAD),
    "another kind": (config_map("a", ""), BAD),
    "no kind": ({"metadata": {"name": "a"}}, DONE),
    "another namespace": (lease("a", namespace="elsewhere"), BAD),
    "a field that it does not have": ({**lease("a"), "data": {}}, DONE),
    "no name": ({**lease(""), "metadata": {}}, INVALID),
    "a name of capitals": (lease("A"), INVALID),
    "a long name": (lease("a" * 253), DONE),
    "a longer name": (lease("a" * 254), INVALID),
    "a version": (lease("a", resourceVersion="5"), (500, "")),
    "no version": (lease("a", resourceVersion="0"), DONE),
    "a label with a blank": (lease("a", labels={"one": "a b"}), INVALID),
    "a label that is too long": (lease("a", labels={"one": "a" * 64}), INVALID),
    "a key with a blank": (lease("a", labels={"o n e": "a"}), INVALID),
    "a key of an annotation with a blank": (lease("a", annotations={"o n e": "a"}), INVALID),
    "a number for an annotation": (lease("a", annotations={"one": 1}), BAD),
    "long annotations": (lease("a", annotations={"one": "x" * (256 * 1024 - 3)}), DONE),
    "longer annotations": (lease("a", annotations={"one": "x" * (256 * 1024 - 2)}), INVALID),
    "no duration": (lease("a", {"leaseDurationSeconds": 0}), INVALID),
    "a duration that is no integer": (lease("a", {"leaseDurationSeconds": 1.5}), BAD),
    "an empty holder": (lease("a", {"holderIdentity": ""}), DONE),
    "a time with microseconds": (lease("a", {"renewTime": "2024-01-01T00:00:00.000000Z"}), DONE),
    "a time without": (lease("a", {"renewTime": "2024-01-01T00:00:00Z"}), BAD),
    "a time with milliseconds": (lease("a", {"renewTime": "2024-01-01T00:00:00.123Z"}), BAD),
}


@pytest.mark.parametrize("what", CREATED)
async def test_a_lease_is_created_or_refused(server: Server, what: str) -> None:
    """An unreadable object is a bad request, and a forbidden one is invalid."""
    body, expected = CREATED[what]
    assert await answer(server.api.create(server.path("leases"), body)) == expected
    if expected == DONE:
        stored = await server.api.get(server.path("leases", body["metadata"]["name"]))
        assert sorted(stored) == ["apiVersion", "kind", "metadata", "spec"]
        assert {"uid", "creationTimestamp", "namespace"} <= stored["metadata"].keys()
        assert await answer(server.api.create(server.path("leases"), body)) == (409, "AlreadyExists")


DATA: Mapping[str, tuple[Json, tuple[int, str]]] = {
    "no data": (config_map("a", ""), DONE),
    "much data": (config_map("a", filled(MEBIBYTE)), DONE),
    "more data": (config_map("a", filled(MEBIBYTE + 1)), INVALID),
    "a request that is too large": (config_map("a", filled(3 * MEBIBYTE)), (413, "RequestEntityTooLarge")),
    "no base64": (config_map("a", "%%%"), BAD),
    "a number": (config_map("a", 1), BAD),
}


@pytest.mark.parametrize("what", DATA)
async def test_a_config_map_is_created_or_refused(server: Server, what: str) -> None:
    """The data of a config map are base64, and at most a mebibyte."""
    body, expected = DATA[what]
    assert await answer(server.api.create(server.path("configmaps"), body)) == expected
    if expected == DONE:
        stored = await server.api.get(server.path("configmaps", "a"))
        assert stored["binaryData"] == body["binaryData"]


async def test_objects_of_members_have_known_fields_only(server: Server) -> None:
    """The objects written by members pass the strict validation, also as replacements."""
    record = Ownership(rm_id=rm("one"), owner=MemberId("a"), epoch=1, revision=0)
    for plural, item in (
        ("leases", member_lease("test", member("a"), 15.0, 1_700_000_000.5)),
        ("leases", rm_lease("test", record)),
        ("configmaps", document_object("test", "document", "key", b"value", 0)),
        ("secrets", document_object("test", SECRET, "secret", b"value", 0)),
    ):
        path = server.path(plural)
        made = await server.api.request("POST", path, item, query={"fieldValidation": "Strict"})
        assert made["metadata"]["annotations"] == item["metadata"]["annotations"]


async def test_an_update_replaces_the_version_that_it_names(server: Server) -> None:
    """Another version is a conflict, which precedes invalid; for a Lease a version is mandatory."""
    first = await server.create("a", {"holderIdentity": "x"}, labels={"one": "1"})
    assert version(await server.replace("a", first)) == version(first)
    same = lease("a", {"holderIdentity": "x"}, labels={"one": "1"}, resourceVersion=version(first))
    assert version(await server.replace("a", same)) == version(first)
    second = await server.replace("a", {**same, "spec": {"holderIdentity": "y"}})
    assert version(second) != version(first)
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    invalid = {"leaseDurationSeconds": 0}
    expected = {
        "stale": (same, CONFLICT),
        "stale and invalid": (lease("a", invalid, resourceVersion=version(first)), CONFLICT),
        "invalid": (lease("a", invalid, resourceVersion=version(second)), INVALID),
        "of the future": (lease("a", resourceVersion="99999999"), CONFLICT),
        "none": (lease("a"), INVALID),
        "zero": (lease("a", resourceVersion="0"), INVALID),
        "a word": (lease("a", resourceVersion="x"), (500, "")),
        "another id": (lease("a", resourceVersion=version(second), uid="x"), CONFLICT),
        "another name": (lease("b", resourceVersion=version(second)), BAD),
        "no name": ({**lease(""), "metadata": {}}, BAD),
    }
    found = {what: await answer(server.replace("a", item)) for what, (item, _) in expected.items()}
    assert found == {what: one for what, (_, one) in expected.items()}
    assert await server.api.get(server.path("leases", "a")) == second


async def test_an_update_creates_a_missing_lease(server: Server) -> None:
    """An update creates a Lease, unless it names an id; a missing config map is an error."""
    first = await server.create("a")
    await server.api.delete(server.path("leases", "a"))
    assert await answer(server.replace("a", first)) == CONFLICT
    again = await server.replace("a", lease("a", resourceVersion=version(first)))
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert await answer(server.replace("b", lease("b"))) == DONE
    assert await answer(server.replace("c", config_map("c", ""), "configmaps")) == MISSING


async def test_a_config_map_without_a_version_replaces_any(server: Server) -> None:
    """Of config maps the last write wins; a version that is given must be the present one."""
    path = server.path("configmaps")
    first = await server.api.create(path, config_map("a", filled(1)))
    second = await server.replace("a", config_map("a", filled(2)), "configmaps")
    assert version(second) != version(first)
    stale = config_map("a", filled(3), resourceVersion=version(first))
    assert await answer(server.replace("a", stale, "configmaps")) == CONFLICT


async def test_a_delete_has_preconditions(server: Server) -> None:
    """A deletion may require version and id, and its answer confirms the deletion."""
    first = await server.create("a")
    path = server.path("leases", "a")
    for precondition in ({"resourceVersion": "5"}, {"uid": "x"}):
        assert await answer(server.api.delete(path, preconditions=precondition)) == CONFLICT
    done = await server.api.delete(path, preconditions={"resourceVersion": version(first)})
    assert (done["kind"], done["status"]) == ("Status", "Success")
    assert await answer(server.api.delete(path, preconditions={"resourceVersion": "5"})) == MISSING
    assert await answer(server.api.get(path)) == MISSING


async def test_pages_are_of_one_moment(server: Server) -> None:
    """A token continues the list in its previous state, repeatedly, and with another limit."""
    for name in "abcde":
        await server.create(name)
    path = server.path("leases")
    first = await server.api.get(path, limit="2")
    await server.create("bb")
    await server.api.delete(server.path("leases", "d"))
    token = first["metadata"]["continue"]
    for limit, expected in (("2", "cd"), ("2", "cd"), ("100", "cde")):
        page = await server.api.get(path, limit=limit, **{"continue": token})
        assert "".join(names(page)) == expected
        assert version(page) == version(first)
        assert bool(page["metadata"].get("continue")) == (limit == "2")
    assert names(await server.api.get(path, limit="-1")) == ["a", "b", "bb", "c", "e"]
    assert await answer(server.api.get(path, limit="x")) == BAD
    assert await answer(server.api.get(path, **{"continue": "x"})) == BAD


async def test_a_list_has_its_kind_once(server: Server) -> None:
    """Items have no kind; an empty list has no items, and the present version."""
    empty = await server.api.get(server.path("leases"))
    assert (empty["kind"], empty["items"]) == ("LeaseList", [])
    made = await server.create("a")
    found = await server.api.get(server.path("leases"))
    assert int(version(found)) >= int(version(made)) > int(version(empty))
    assert sorted(found["items"][0]) == ["metadata", "spec"]
    assert names(await server.api.get(server.path("leases", namespace="nowhere"))) == []


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", "abc"),
        ("one=1", "ab"),
        ("one==1", "ab"),
        ("one=1,two=2", "b"),
        ("one=1, two=2", "b"),
        ("one=3", ""),
        ("one=1,", BAD),
        ("=1", BAD),
        ("one two", BAD),
    ],
)
async def test_all_labels_of_a_selector_match(server: Server, selector: str, expected: object) -> None:
    """All labels of a selector have to match, and an invalid selector is refused."""
    await server.create("a", labels={"one": "1"})
    await server.create("b", labels={"one": "1", "two": "2"})
    await server.create("c", labels={"two": "2"})
    call = server.api.get(server.path("leases"), labelSelector=selector)
    if expected == BAD:
        assert await answer(call) == BAD
    else:
        assert "".join(names(await call)) == expected


async def told(server: Server, **query: str) -> list[tuple[str, str]]:
    """The types and names of a watch's events within a second."""
    found = []
    path = server.path("leases")
    async with aclosing(server.api.watch(path, timeoutSeconds="1", **query)) as changes:
        async for kind, item in changes:
            found.append((kind, item["metadata"]["name"]))
            assert (item["kind"], item["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    return found


async def test_a_watch_follows_its_selector(server: Server) -> None:
    """An object enters the view and leaves it; without a version the watch begins with present objects."""
    begun = version(await server.api.get(server.path("leases")))
    item = await server.create("a", labels={"one": "1"})
    for label in "121":
        item = copy.deepcopy(item)
        item["metadata"]["labels"]["one"] = label
        item["spec"]["holderIdentity"] = f"{label} {version(item)}"
        item = await server.replace("a", item)
    await server.create("b", labels={"one": "1"})
    await server.api.delete(server.path("leases", "a"))
    seen = await told(server, labelSelector="one=1", resourceVersion=begun)
    kinds = ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert [kind for kind, name in seen if name == "a"] == kinds
    assert [kind for kind, name in seen if name == "b"] == ["ADDED"]
    assert await told(server, labelSelector="one=1", resourceVersion="0") == [("ADDED", "b")]


async def test_a_watch_without_a_number_is_refused(server: Server) -> None:
    """An empty version is an error of the server."""
    path = server.path("leases")
    async with aclosing(server.api.watch(path, resourceVersion="x")) as changes:
        with pytest.raises(ApiRefused, match=r"^500 :"):
            await anext(changes)


async def test_unknown_callers_are_refused(server: Server) -> None:
    """An unknown token is unauthorized; a call without one is anonymous, and has no right."""
    path = server.path("leases")
    assert await answer(server.stranger.get(path)) == (401, "Unauthorized")
    assert await answer(server.anybody.get(path)) == (403, "Forbidden")


async def test_missing_objects_are_named(server: Server) -> None:
    """A missing object is named by kind and group, and so is a namespace for a write."""
    with pytest.raises(ApiRefused, match=r'404 NotFound: leases.coordination.k8s.io "a" not found'):
        await server.api.get(server.path("leases", "a"))
    with pytest.raises(ApiRefused, match='404 NotFound: configmaps "a" not found'):
        await server.api.get(server.path("configmaps", "a"))
    with pytest.raises(ApiRefused, match='404 NotFound: namespaces "nowhere" not found'):
        await server.api.create(server.path("leases", namespace="nowhere"), lease("a"))
    assert await answer(server.api.create(server.path("leases", "a"), lease("a"))) == (
        405,
        "MethodNotAllowed",
    )
