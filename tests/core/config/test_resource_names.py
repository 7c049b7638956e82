"""Resource names that resemble a usual name, in every place of a configuration that has resources."""

import pytest

from licorne_core.config.report import USUAL, meant_by
from support.core.configurations import complaint, loaded, messages, partition_text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *((name, "vcore") for name in ("cpu", "CPU", "vcores", "VCore", "vcor", "vocre", "cores")),
        *((name, "memory") for name in ("Memory", "mem", "memroy", "memry", "menory", "memoryy")),
        *((name, "pods") for name in ("pod", "Pods")),
        *((name, "ephemeral-storage") for name in ("ephemeralStorage", "ephemeral-storge")),
        *((name, "nvidia.com/gpu") for name in ("nvidia.com/GPU", "nvidia.com/gpus")),
        *(("requests.cpu", "vcore"), ("limits.memory", "memory")),
        *(("requests.nvidia.com/gpu", "nvidia.com/gpu"), ("hugepages-2mi", "hugepages-2Mi")),
    ],
)
def test_misspelled_names_get_a_suggestion(written: str, meant: str) -> None:
    """Another case, one wrong letter, or a word of Kubernetes leads to the suggestion of the usual name."""
    assert meant_by(written) == meant


@pytest.mark.parametrize(
    "name",
    [
        *(*USUAL, "gpu", "licenses", "tokens", "score", "memory2", "memory-bw", "memory.high"),
        *("pids", "storage", "hugepages-4Mi", "nvidia.com/mig-1g.5gb", "example.com/cpu", ""),
        *("requests.licenses", "c" * 1_000),
    ],
)
def test_custom_names_are_accepted(name: str) -> None:
    """Usual names, and names that resemble none of these, are accepted without a suggestion."""
    assert meant_by(name) == ""


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("queues: [{name: a, resources: {guaranteed: {%s: 1}}}]", "queues[0].resources.guaranteed"),
        ("queues: [{name: a, resources: {max: {%s: 1}}}]", "queues[0].resources.max"),
        (
            "queues: [{name: a, childtemplate: {resources: {max: {%s: 1}}}}]",
            "queues[0].childtemplate.resources.max",
        ),
        (
            "queues: [{name: a, limits: [{limit: l, users: [u], maxresources: {%s: 1}}]}]",
            "queues[0].limits[0].maxresources",
        ),
        (
            "limits: [{limit: l, users: [u], maxresources: {%s: 1}}]\nqueues: [{name: a}]",
            "limits[0].maxresources",
        ),
        ("nodesortpolicy: {resourceweights: {%s: 1}}\nqueues: [{name: a}]", "nodesortpolicy.resourceweights"),
    ],
)
def test_every_place_warns_of_misspelled_names(body: str, path: str) -> None:
    """Quotas, templates, limits and weights give place and suggestion; `--strict` refuses the name.

    A usual or a custom name gives no warning.
    """
    message = "resource 'cpu' says nothing about vcore, did you mean 'vcore'?"
    (warning,) = loaded(partition_text(body % "cpu")).warnings
    assert warning.endswith(f": partitions[0].{path}.cpu: {message}")
    assert complaint(body % "cpu", strict=True) == message
    for name in ("vcore", "licenses"):
        assert messages(body % name, strict=True) == []


def test_a_property_with_amounts_warns() -> None:
    """A misspelled name in the property with a loss limit gives a warning."""
    body = "queues: [{name: a, properties: {preemption.loss.limit: 'cpu=10,memory=1Gi'}}]"
    assert complaint(body, strict=True) == ("resource 'cpu' says nothing about vcore, did you mean 'vcore'?")


def test_an_invalid_amount_of_a_misspelled_name_suggests_the_usual_name() -> None:
    """An amount that only the usual name allows is refused, with a suggestion of that name."""
    body = "queues: [{name: a, resources: {max: {cpu: 500m}}}]"
    assert complaint(body) == "invalid suffix '500m' for cpu, did you mean 'vcore'?"
