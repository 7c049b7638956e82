"""The chart with several members: their store, names, rights, and places."""

from pathlib import Path

import pytest

from licorne_server.store.coordination.kubernetes.api import CONFIG_MAPS, LEASES, SECRETS, VERBS
from licorne_server.store.coordination.kubernetes.objects import SECRET, object_name
from licorne_server.store.coordination.secret import KEY
from support.deployment import (
    CHART,
    POD,
    Objects,
    core,
    objects,
    only,
    pod,
    service,
    settings,
    settings_text,
    template,
)

pytestmark = pytest.mark.helm

LABELS = {"app.kubernetes.io/name": "licorne", "app.kubernetes.io/instance": "licorne"}


def example(name: str, *sets: str) -> Objects:
    """The rendered chart of an example."""
    words = [word for pair in sets for word in ("--set", pair)]
    return objects(template("--values", CHART.parent / f"examples/{name}.yaml", *words))


def test_members_share_a_store_and_have_own_names(tmp_path: Path) -> None:
    """Each pod advertises its name in the headless service, and stores nothing on a volume."""
    found = example("members")
    wanted = only(found, "StatefulSet")
    assert (wanted["metadata"]["name"], wanted["spec"]["replicas"]) == ("licorne-members", 3)
    assert wanted["spec"]["podManagementPolicy"] == "Parallel"
    assert "volumeClaimTemplates" not in wanted["spec"]
    read = settings(found, tmp_path)
    assert read.state_dir is None
    assert read.coordination is not None
    assert (read.coordination.backend, read.coordination.prefix) == ("kubernetes", "licorne/licorne")
    host = f"{POD}.{wanted['spec']['serviceName']}.licorne.svc"
    assert read.coordination.advertise == f"{host}:{read.listen.port}"
    assert read.http is not None
    assert read.coordination.advertise_http == f"https://{host}:{read.http.port}"
    assert read.coordination.name == POD
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    assert {"name": "POD_NAME", "valueFrom": field} in core(found)["env"]
    headless = only(found, "Service", wanted["spec"]["serviceName"])["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    assert headless["selector"].items() <= wanted["spec"]["template"]["metadata"]["labels"].items()


def test_plain_http_is_advertised(tmp_path: Path) -> None:
    """Other members use the scheme that is served."""
    coordination = settings(example("members", "http.insecure=true"), tmp_path).coordination
    assert coordination is not None
    assert coordination.advertise_http.startswith("http://")


def test_members_have_the_rights_that_they_use() -> None:
    """The Role has the verbs of the calls that are made, and one Secret may be read."""
    found = example("members")
    role, binding = only(found, "Role"), only(found, "RoleBinding")
    *whole, create, read = role["rules"]
    for rule, resource in zip(whole, (LEASES, CONFIG_MAPS), strict=True):
        assert (rule["apiGroups"], rule["resources"]) == ([resource.group], [resource.plural])
        assert sorted(rule["verbs"]) == sorted(VERBS)
    assert (create["resources"], create["verbs"]) == ([SECRETS.plural], ["create"])
    assert (read["resources"], read["verbs"]) == ([SECRETS.plural], ["get"])
    assert read["resourceNames"] == [object_name("licorne", SECRET, KEY)]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", role["metadata"]["name"])
    [subject] = binding["subjects"]
    assert subject == {
        "kind": "ServiceAccount",
        "name": pod(found)["serviceAccountName"],
        "namespace": "licorne",
    }
    assert pod(found)["automountServiceAccountToken"] is True


def test_an_etcd_needs_no_rights_in_the_cluster(tmp_path: Path) -> None:
    """Members with an etcd have no token, and the certificates of its secret."""
    found = example("etcd")
    assert not [one for one in found if one["kind"] in ("Role", "RoleBinding")]
    assert pod(found)["automountServiceAccountToken"] is False
    coordination = settings(found, tmp_path).coordination
    assert coordination is not None
    assert (coordination.backend, len(coordination.hosts), coordination.tls) == ("etcd", 3, True)
    [constraint] = pod(found)["topologySpreadConstraints"]
    assert constraint["topologyKey"] == "topology.kubernetes.io/zone"


def test_a_single_core_has_no_parts_of_members() -> None:
    """Without members there are no rights, no token and no spread."""
    found = objects(template())
    assert not [one for one in found if one["kind"] in ("Role", "RoleBinding", "PodDisruptionBudget")]
    assert "topologySpreadConstraints" not in pod(found)
    assert "coordination" not in settings_text(found)
    assert not [one for one in core(found).get("env", []) if "COORDINATION" in one["name"]]


def test_members_are_spread_and_evicted_one_by_one() -> None:
    """A lost host has one member, and a drained node waits for the other members."""
    found = example("members")
    spread = {one["topologyKey"]: one for one in pod(found)["topologySpreadConstraints"]}
    assert spread["kubernetes.io/hostname"]["whenUnsatisfiable"] == "DoNotSchedule"
    assert spread["topology.kubernetes.io/zone"]["whenUnsatisfiable"] == "ScheduleAnyway"
    assert all(one["labelSelector"]["matchLabels"] == LABELS for one in spread.values())
    budget = only(found, "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, LABELS)
    assert "minAvailable" not in budget


def test_the_network_policy_admits_members() -> None:
    """Where peers are named, members are too; and they reach names and the API server."""
    policy = only(example("members"), "NetworkPolicy")["spec"]
    own = {"podSelector": {"matchLabels": LABELS}}
    sources = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
    assert own in sources["grpc"]
    assert sources["http"] is None
    assert [rule for rule in policy["egress"] if rule.get("to") == [own]]
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert ports == {"grpc", "http", 53, 443, 6443}
    etcd = only(example("etcd"), "NetworkPolicy")["spec"]
    assert {port["port"] for rule in etcd["egress"] for port in rule["ports"]} == {"grpc", "http", 53, 2379}


def test_the_service_selects_all_members() -> None:
    """The service selects all members."""
    found = example("members")
    labels = only(found, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert service(found)["spec"]["selector"].items() <= labels.items()
