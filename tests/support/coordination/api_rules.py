"""Rules of Kubernetes for objects: what it refuses, selects, and takes for equal."""

import base64
import re
from typing import Any

Json = dict[str, Any]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_MOST_ANNOTATIONS = 256 * 1024
_MOST_DATA = 1024 * 1024


class Refusal(Exception):
    """An error of the API, as a Status object."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """Answer with that status."""
        super().__init__(message)
        self.status = status
        self.reason = reason


def selects(selector: str, item: Json) -> bool:
    """True if an object has all labels of a selector of equalities."""
    labels = item["metadata"].get("labels") or {}
    pairs = [term.split("=", 1) for term in selector.split(",") if term]
    return all(labels.get(key) == value for key, value in pairs)


def without_version(item: Json, plural: str) -> Json:
    """What two objects have to have in common for an update to change nothing."""
    metadata = {k: v for k, v in item["metadata"].items() if k not in ("resourceVersion", "namespace")}
    return {**item, "metadata": metadata, "kind": plural, "apiVersion": ""}


def validate(plural: str, item: Json) -> None:
    """Refuse what Kubernetes refuses, with 422."""

    def demand(holds: object, message: str) -> None:
        if not holds:
            raise Refusal(422, "Invalid", f"{plural} is invalid: {message}")

    metadata = item["metadata"]
    name = metadata["name"]
    demand(len(name) <= 253 and _NAME.fullmatch(name), f"metadata.name: {name!r} is no RFC 1123 subdomain")
    for key, value in (metadata.get("labels") or {}).items():
        demand(len(value) <= 63 and _LABEL.fullmatch(value), f"metadata.labels: {key}: {value!r}")
    annotations = metadata.get("annotations") or {}
    demand(all(isinstance(value, str) for value in annotations.values()), "metadata.annotations: no text")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    demand(size <= _MOST_ANNOTATIONS, "metadata.annotations: Too long")
    if plural in ("configmaps", "secrets"):
        binary = item.get("binaryData" if plural == "configmaps" else "data", {})
        data = [base64.b64decode(value, validate=True) for value in binary.values()]
        demand(sum(map(len, data)) <= _MOST_DATA, "Too long: must have at most 1048576 bytes")
        return
    spec = item.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    demand(seconds is None or (isinstance(seconds, int) and seconds > 0), "spec.leaseDurationSeconds")
    demand(spec.get("holderIdentity") != "", "spec.holderIdentity: must not be empty")
    if "renewTime" in spec:
        demand(_TIME.fullmatch(spec["renewTime"]), "spec.renewTime: no time with microseconds")
