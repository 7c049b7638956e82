"""Pods, and their controllers, as JSON for the API server."""

from collections.abc import Mapping
from typing import Any

from licorne_tools.kube.api import Json

PREFIX = "yunikorn.apache.org/"


def pod(
    name: str,
    cpu: str = "500m",
    *,
    queue: str = "",
    app: str = "",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod for the scheduler. Annotations are without the shim's prefix; `spec` has further fields."""
    return {"metadata": {"name": name, **_labelled(app, queue, annotations)}, "spec": {**_spec(cpu), **spec}}


def deployment(
    name: str, replicas: int, cpu: str = "500m", *, queue: str = "", app: str = "", **spec: Any
) -> Json:
    """A Deployment of such pods; without an application they use the one of their namespace."""
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"of": name}},
            "template": _template(name, cpu, queue, app, None, spec),
        },
    }


def job(
    name: str,
    pods: int,
    cpu: str = "500m",
    *,
    queue: str = "",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A Job that runs this number of pods in parallel."""
    template = _template(name, cpu, queue, "", annotations, {"restartPolicy": "Never", **spec})
    return {
        "metadata": {"name": name},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def daemon_set(name: str, cpu: str = "100m") -> Json:
    """A DaemonSet of such pods."""
    template = _template(name, cpu, "", "", None, {})
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"of": name}}, "template": template},
    }


def _template(
    name: str, cpu: str, queue: str, app: str, annotations: Mapping[str, str] | None, spec: Mapping[str, Any]
) -> Json:
    metadata = _labelled(app, queue, annotations)
    metadata["labels"]["of"] = name
    return {"metadata": metadata, "spec": {**_spec(cpu), **spec}}


def _labelled(app: str, queue: str, annotations: Mapping[str, str] | None) -> Json:
    labels = {"applicationId": app, "queue": queue}
    return {
        "labels": {name: text for name, text in labels.items() if text},
        "annotations": {f"{PREFIX}{name}": text for name, text in (annotations or {}).items()},
    }


def _spec(cpu: str) -> Json:
    resources = {"requests": {"cpu": cpu, "memory": "100Mi"}}
    return {
        "schedulerName": "yunikorn",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "main", "resources": resources}],
    }
