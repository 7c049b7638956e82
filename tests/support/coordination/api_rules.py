"""Rules of Kubernetes for objects: refusals, selectors, and equality.

`tests/kube/test_player.py` compares them with a real API server.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects; unknown fields are dropped when an object is stored."""

    name: str
    version: str
    plural: str
    fields: tuple[str, ...]

    @property
    def full(self) -> str:
        """The plural with its group, as in messages."""
        group, slash, _ = self.version.partition("/")
        return f"{self.plural}.{group}" if slash else self.plural


KINDS = {
    kind.plural: kind
    for kind in (
        Kind("Lease", "coordination.k8s.io/v1", "leases", ("spec",)),
        Kind("ConfigMap", "v1", "configmaps", ("data", "binaryData")),
        Kind("Secret", "v1", "secrets", ("data", "type")),
    )
}

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_TERM = re.compile(rf"({_KEY.pattern})==?({_LABEL.pattern})")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_MOST_ANNOTATIONS = 256 * 1024
_MOST_DATA = 1024 * 1024


class Refusal(Exception):
    """An error of the API, as a Status object. Some errors of 500 have no reason."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """An answer with that status."""
        super().__init__(message)
        self.status = status
        self.reason = reason


def bad_request(message: str) -> Refusal:
    """The answer to an unreadable request."""
    return Refusal(400, "BadRequest", message)


def selects(selector: str, item: Json) -> bool:
    """True if an object has all labels of a selector, which may only have equalities."""
    labels = item["metadata"].get("labels") or {}
    found = [_TERM.fullmatch(term.strip()) for term in selector.split(",")] if selector else []
    terms = [term for term in found if term is not None]
    if len(terms) < len(found):
        raise bad_request(f"unable to parse requirement: {selector!r}")
    return all(labels.get(term[1]) == term[5] for term in terms)


def without_version(item: Json) -> Json:
    """The parts of an object that an update leaves equal if it changes nothing."""
    return {**item, "metadata": {k: v for k, v in item["metadata"].items() if k != "resourceVersion"}}


def decode(kind: Kind, namespace: str, data: bytes) -> Json:
    """The object of a request, without fields that its kind does not have; 400 for anything else."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.name})")
    named = (body.get("kind", kind.name), body.get("apiVersion", kind.version))
    if named != (kind.name, kind.version):
        raise bad_request(f"{named[0]} in version {named[1]!r} cannot be handled as a {kind.name}")
    metadata = body.get("metadata") or {}
    if metadata.get("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace of the request")
    try:
        _demand_types(kind, metadata, body)
    except ValueError as error:
        raise bad_request(f"{kind.name} cannot be handled as a {kind.name}: {error}") from error
    return {"metadata": metadata, **{name: body[name] for name in kind.fields if name in body}}


def _demand_types(kind: Kind, metadata: Json, body: Json) -> None:
    texts = [metadata.get("labels"), metadata.get("annotations")]
    spec: Mapping[str, Any] = body.get("spec") or {}
    if kind.plural == "leases":
        if not isinstance(spec.get("leaseDurationSeconds", 0), int):
            raise ValueError("leaseDurationSeconds")
        # Kubernetes also accepts zones other than UTC.
        if "renewTime" in spec and not _TIME.fullmatch(spec["renewTime"]):
            raise ValueError("renewTime has no microseconds")
    else:
        texts.append(binary(kind, body))
    if not all(isinstance(value, str) for some in texts for value in (some or {}).values()):
        raise ValueError("no text")
    for value in binary(kind, body).values():
        base64.b64decode(value, validate=True)


def binary(kind: Kind, item: Json) -> Mapping[str, Any]:
    """The data of an object in base64, by key."""
    field = {"configmaps": "binaryData", "secrets": "data"}.get(kind.plural, "")
    found: Mapping[str, Any] = item.get(field) or {}
    return found


def validate(kind: Kind, item: Json) -> None:
    """Refuse invalid objects like Kubernetes, with 422."""

    def demand(holds: object, message: str) -> None:
        if not holds:
            raise Refusal(422, "Invalid", f"{kind.name} is invalid: {message}")

    metadata = item["metadata"]
    name = metadata.get("name", "")
    demand(len(name) <= 253 and _NAME.fullmatch(name), f"metadata.name: {name!r} is no RFC 1123 subdomain")
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    for key in (*labels, *annotations):
        demand(_KEY.fullmatch(key), f"a qualified name must consist of alphanumeric characters: {key!r}")
    for key, value in labels.items():
        demand(len(value) <= 63 and _LABEL.fullmatch(value), f"metadata.labels: {key}: {value!r}")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    demand(size <= _MOST_ANNOTATIONS, "metadata.annotations: Too long")
    size = sum(len(base64.b64decode(value)) for value in binary(kind, item).values())
    demand(size <= _MOST_DATA, "Too long: may not be more than 1048576 bytes")
    demand((item.get("spec") or {}).get("leaseDurationSeconds", 1) > 0, "spec.leaseDurationSeconds")
