"""The chart on a real API server: no warnings, admitted pods, and an account with exactly its rights."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from licorne_server.process.coordination import Coordination
from licorne_server.store.coordination.kubernetes import KubernetesStore
from licorne_server.store.coordination.kubernetes.access import ClusterAccess
from licorne_server.store.coordination.secret import deployment_secret
from licorne_server.store.documents.documents import StoreError
from licorne_tools.kube.api import Api, ApiRefused, Json, api
from licorne_tools.kube.plane import Plane, write_kubeconfig
from support.coordination.backends import member, present, rm, watching
from support.coordination.kubernetes import KubernetesBackend
from support.deployment import CHART, EXAMPLES, PLAIN, WITH_IMAGE, helm, only, pod
from support.kube.charts import ACCOUNT, RESTRICTED, apply, kubectl, rendered, restricted_namespace, token_of
from support.patience import PATIENCE

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

FOREIGN = {
    "cert-manager.io": {"gateway": ["Certificate"], "page": ["Certificate", "Issuer"]},
    "gateway.networking.k8s.io": {"gateway": ["HTTPRoute"]},
    "monitoring.coreos.com": {"monitoring": ["PrometheusRule", "ServiceMonitor"]},
}
"""Foreign groups, and the kinds of each in the examples: they do not exist here, and are left out."""

SHIM_ACCOUNT = "yunikorn-admin"
"""The account of the older scheduler's chart, which the example of the shim needs."""

MEMBERS = EXAMPLES[0].with_name("members.yaml")
A = member("a")
LEASE = 4.0


async def test_the_excluded_kinds_are_foreign(plane: Plane) -> None:
    """The API server does not know the kinds that are left out here, and would refuse them."""
    groups = (await plane.api.get("/apis"))["groups"]
    assert not FOREIGN.keys() & {group["name"] for group in groups}


def group_of(item: Mapping[str, Any]) -> str:
    """The group of an object."""
    return str(item["apiVersion"]).partition("/")[0]


@pytest.mark.parametrize("example", ["", *(one.stem for one in EXAMPLES)])
async def test_an_example_is_admitted_with_its_pods(plane: Plane, example: str) -> None:
    """A restricted namespace accepts all objects without a warning, and the pods are created."""
    async with restricted_namespace(plane, f"chart-{example or 'default'}") as namespace:
        if example == "shim":
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            await plane.api.create(path, {"metadata": {"name": SHIM_ACCOUNT}})
        values = ("--values", str(MEMBERS.with_name(f"{example}.yaml"))) if example else ()
        found = rendered(namespace, *values)
        left_out = {
            group: sorted({one["kind"] for one in found if group_of(one) == group})
            for group, examples in FOREIGN.items()
            if example in examples
        }
        assert left_out == {group: FOREIGN[group][example] for group in left_out}
        known = [one for one in found if group_of(one) not in FOREIGN]
        assert {line.split()[-1] for line in await apply(plane, namespace, known)} == {"created"}
        await made(plane, namespace, only(found, "StatefulSet")["spec"]["replicas"])
        # Applied again, as an upgrade without a change: fields set by the server replace no pod.
        assert {line.split()[-1] for line in await apply(plane, namespace, known)} <= {
            "unchanged",
            "configured",
        }
        sets = await plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/statefulsets")
        assert [one["metadata"]["generation"] for one in sets["items"]] == [1]


async def made(plane: Plane, namespace: str, number: int) -> None:
    """Wait until this number of pods of a namespace was admitted; none may have been refused."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    seen: set[str] = set()
    async with asyncio.timeout(PATIENCE), aclosing(plane.api.watch(path)) as changes:
        async for _, item in changes:
            seen.add(item["metadata"]["name"])
            if len(seen) == number:
                break
    events = await plane.api.get(f"/api/v1/namespaces/{namespace}/events")
    refused = [one["message"] for one in events["items"] if one["reason"] == "FailedCreate"]
    assert not refused


async def test_the_plain_manifests_are_admitted_with_their_pod(plane: Plane) -> None:
    """The command of the documentation creates the namespace, which restricts pods, and all objects in it."""
    await kubectl(plane, "apply", "--kustomize", PLAIN)
    namespace = await plane.api.get("/api/v1/namespaces/licorne")
    assert {key: namespace["metadata"]["labels"].get(key) for key in RESTRICTED} == RESTRICTED
    await made(plane, "licorne", 1)
    await kubectl(plane, "delete", "--kustomize", PLAIN, "--wait=false")


class Account:
    """The account of members with its token, and the folder of a pod with it."""

    def __init__(self, api: Api, namespace: str, access: ClusterAccess) -> None:
        """Use the account in a namespace."""
        self.api = api
        self.namespace = namespace
        self.access = access

    def path(self, what: str, namespace: str = "") -> str:
        """The path of objects, such as `configmaps` or `coordination.k8s.io/v1/leases/NAME`."""
        group, _, plural = what.rpartition("/v1/")
        root = f"/apis/{group}/v1" if group else "/api/v1"
        return f"{root}/namespaces/{namespace or self.namespace}/{plural}"

    def open(self) -> KubernetesStore:
        """The store of a member in a pod."""
        return KubernetesStore(Coordination(backend="kubernetes", prefix=ACCOUNT, lease=LEASE), self.access)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Account]:
    """The account that the chart creates for members."""
    async with restricted_namespace(plane, "account") as namespace:
        await apply(plane, namespace, rendered(namespace, "--values", MEMBERS))
        token = await token_of(plane, namespace)
        folder = tmp_path_factory.mktemp("account")
        (folder / "token").write_text(token)
        (folder / "namespace").write_text(namespace)
        (folder / "ca.crt").write_bytes(plane.authority.read_bytes())
        parts = urlsplit(plane.url)
        environ = {
            "KUBERNETES_SERVICE_HOST": str(parts.hostname),
            "KUBERNETES_SERVICE_PORT": str(parts.port),
        }
        async with api(plane.url, plane.authority, token) as caller:
            yield Account(caller, namespace, ClusterAccess(account=folder, environ=environ))


async def test_the_account_has_the_rights_of_a_member(account: Account) -> None:
    """A pod with it joins, renews, claims and releases, stores documents and a secret, watches and leaves."""
    store, other = account.open(), account.open()
    await store.join(A)
    await other.join(member("b"))
    await store.renew(A)
    claimed = await store.claim(rm("one"), A.id, None, 0)
    revision = await store.compare_and_set("shared/one", b"1", 0)
    assert await deployment_secret(store) == await deployment_secret(other)
    seen = await present(other)
    assert (set(seen.members), seen.rms) == ({A.id, "b"}, {rm("one"): claimed})
    assert seen.documents["shared/one"].revision == revision
    await store.compare_and_set("shared/one", None, revision)
    await store.release(claimed)
    await store.leave()
    # A Lease that has ended is deleted by a member that lists all of them.
    leases = account.path("coordination.k8s.io/v1/leases")
    async with asyncio.timeout(PATIENCE), watching(other) as snapshots:
        async for _ in snapshots:
            if len((await account.api.get(leases, labelSelector="licorne.dev/kind=member"))["items"]) < 2:
                break
    await other.leave()
    for one in (store, other):
        await one.close()


ALL = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
SELF = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"]
"""The rights of every account about itself."""


async def test_the_account_has_the_rights_of_its_role_only(account: Account) -> None:
    """The API server lists the rights of the Role in its namespace, and none in others."""
    assert await rights(account, account.namespace) == {
        ("coordination.k8s.io", "leases", ""): set(ALL) - {"patch", "deletecollection"},
        ("", "configmaps", ""): set(ALL) - {"patch", "deletecollection"},
        ("", "secrets", ""): {"create"},
        ("", "secrets", secret_name(account)): {"get"},
    }
    for namespace in ("default", "kube-system"):
        assert await rights(account, namespace) == {}


def secret_name(account: Account) -> str:
    """The one secret that the Role names."""
    found = rendered(account.namespace, "--values", MEMBERS)
    [name] = only(found, "Role")["rules"][-1]["resourceNames"]
    assert isinstance(name, str)
    return name


async def rights(account: Account, namespace: str) -> dict[tuple[str, str, str], set[str]]:
    """The verbs by group, resource and name, as `kubectl auth can-i --list` has them."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    asked: Json = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1"}
    answer = await account.api.create(path, {**asked, "spec": {"namespace": namespace}})
    found: dict[tuple[str, str, str], set[str]] = {}
    for rule in answer["status"]["resourceRules"]:
        for of in itertools.product(rule["apiGroups"], rule["resources"], rule.get("resourceNames") or [""]):
            if of[1] not in SELF:
                found.setdefault(of, set()).update(rule["verbs"])
    return found


def forbidden(account: Account) -> Iterator[tuple[str, str]]:
    """Calls that a member does not need, by method and path."""
    own = secret_name(account)
    for plural in ("configmaps", "secrets", "coordination.k8s.io/v1/leases", "pods"):
        for namespace in ("default", "kube-system"):
            yield "GET", account.path(plural, namespace)
            yield "POST", account.path(plural, namespace)
    for plural in ("pods", "services", "events", "serviceaccounts", "apps/v1/statefulsets"):
        yield "GET", account.path(plural)
        yield "POST", account.path(plural)
    yield "GET", account.path("secrets")
    yield "GET", account.path("secrets/licorne-tls")
    for method in ("PUT", "PATCH", "DELETE"):
        yield method, account.path(f"secrets/{own}")
        yield method, account.path("rbac.authorization.k8s.io/v1/roles/licorne")
    yield "PATCH", account.path("configmaps/licorne")
    yield "DELETE", account.path("configmaps")
    yield "POST", account.path(f"serviceaccounts/{ACCOUNT}/token")
    for path in ("/api/v1/nodes", "/api/v1/namespaces", "/api/v1/pods", "/api/v1/secrets", "/metrics"):
        yield "GET", path


async def test_the_api_server_forbids_other_calls(account: Account) -> None:
    """Each call that no member makes is answered with 403."""
    answers = {}
    calls = list(forbidden(account))
    for method, path in calls:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        body: Json | None = {"metadata": {"name": "x"}} if method in ("POST", "PUT", "PATCH") else None
        try:
            await account.api.request(method, path, body, kind=kind)
        except ApiRefused as refused:
            answers[method, path] = refused.status
    assert answers == dict.fromkeys(calls, 403)


async def test_an_account_without_the_role_gets_a_message(
    plane: Plane, account: Account, tmp_path: Path
) -> None:
    """The message has the verb and the resource, in the words of the API server too."""
    token = await token_of(plane, account.namespace, "default")
    config = write_kubeconfig(tmp_path / "kubeconfig", plane.url, plane.authority, "default", token)
    store = KubernetesBackend(config, account.namespace).open()
    missing = r"forbids this member to create leases\.coordination\.k8s\.io: .*cannot"
    with pytest.raises(StoreError, match=missing):
        await store.join(A)
    await store.close()


async def test_a_pod_that_would_be_refused_is_detected(plane: Plane) -> None:
    """The API server warns of a stateful set whose pods have too many rights."""
    async with restricted_namespace(plane, "chart-refused") as namespace:
        sets = [one for one in rendered(namespace) if one["kind"] == "StatefulSet"]
        pod(sets)["securityContext"]["runAsNonRoot"] = False
        with pytest.raises(AssertionError, match=r"would violate PodSecurity .*runAsNonRoot"):
            await apply(plane, namespace, sets)


async def test_helm_upgrades_to_members_and_keeps_the_volume(plane: Plane) -> None:
    """The commands of the documentation: an installation, an upgrade to members, and the removal."""
    async with restricted_namespace(plane, "helm") as namespace:
        into = ("--namespace", namespace, "--kubeconfig", plane.kubeconfig)

        async def run(*words: str | Path) -> None:
            done = await asyncio.to_thread(helm, *words, *into)
            assert done.returncode == 0, done.stderr

        async def there(path: str) -> list[str]:
            found = await plane.api.get(path.replace("NAMESPACE", f"namespaces/{namespace}"))
            return [item["metadata"]["name"] for item in found["items"]]

        await run("install", "licorne", CHART, *WITH_IMAGE)
        await made(plane, namespace, 1)
        members = ("--set", "replicas=3", "--set", "persistence.enabled=false")
        await run("upgrade", "licorne", CHART, "--reset-then-reuse-values", *members)
        assert await there("/apis/apps/v1/NAMESPACE/statefulsets") == ["licorne-members"]
        await run("uninstall", "licorne")
        for path in (
            "/apis/apps/v1/NAMESPACE/statefulsets",
            "/apis/rbac.authorization.k8s.io/v1/NAMESPACE/roles",
        ):
            assert await there(path) == []
        assert await there("/api/v1/NAMESPACE/persistentvolumeclaims") == ["state-licorne-0"]
