"""Converts members, owners of RMs and documents to objects of Kubernetes, and back.

A member is a Lease, and so is the record of an RM. So one LIST returns both from one moment, and one watch
follows both. The Lease of an RM is never renewed. Its epoch is in an annotation, because others may count
`leaseTransitions`. A document is a config map, because it may exceed the limit of all annotations together.
The shared secret of members is a Secret, because many users may read config maps.

Ids may contain any characters and names of objects may not, so a name has a hash of the id; the id itself is
an annotation. Labels select all objects of one deployment.
"""

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from licorne_core.values.ids import RmId
from licorne_server.process.coordination import MOST_LEASE
from licorne_server.store.coordination.records import (
    read_member,
    read_ownership,
    write_member,
    write_ownership,
)
from licorne_server.store.coordination.store import Member, MemberId, Ownership
from licorne_server.store.documents.documents import Document, StoreError

Json = dict[str, Any]

DEPLOYMENT = "licorne.dev/deployment"
KIND = "licorne.dev/kind"
ID = "licorne.dev/id"
RECORD = "licorne.dev/record"
ENDED = "licorne.dev/ended"
WRITE = "licorne.dev/write"

SHARED_KIND = "shared"
SECRET = "secret"
"""Values of the label: for documents that snapshots contain, and for the document stored as a Secret."""

MAX_MEMBER = 192 * 1024
"""Maximum number of bytes of a member. Kubernetes accepts 256 KiB of annotations."""

_READABLE = 40


@dataclass(frozen=True, slots=True)
class MemberLease:
    """The Lease of a member."""

    member: Member
    version: str
    """The resourceVersion of the Lease."""
    duration: float
    """Seconds without a change after which the lease has ended."""
    ended: bool
    """True if the Lease was marked as ended. Such a Lease is never renewed."""


def object_name(deployment: str, kind: str, key: str) -> str:
    """The name of the object for an id or a key: a DNS-1123 subdomain, unique to the key."""
    readable = re.sub(r"[^a-z0-9]+", "-", key[:_READABLE].lower()).strip("-")
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return ".".join(part for part in (deployment, kind, readable, digest) if part)


def version_of(found: Mapping[str, Any]) -> str:
    """The resourceVersion of an object or a list.

    Raises:
        StoreError: there is none.
    """
    version = _mapping(found.get("metadata")).get("resourceVersion")
    if not isinstance(version, str) or not version:
        raise StoreError("an object of Kubernetes has no resourceVersion")
    return version


def revision_of(found: Mapping[str, Any]) -> int:
    """The resourceVersion as a number; it is one in every API server that uses etcd.

    Raises:
        StoreError: the resourceVersion is no number.
    """
    version = version_of(found)
    if not version.isascii() or not version.isdecimal() or len(version) > 19:
        raise StoreError(f"the resourceVersion of an object of Kubernetes is no number: {version!r}")
    return int(version)


def write_of(found: Mapping[str, Any]) -> str:
    """The id of the last write of the object; empty if there is none."""
    return str(_annotations(found).get(WRITE, ""))


def kind_of(found: Mapping[str, Any]) -> str:
    """The kind of one of our objects, by its label; empty without the label."""
    return str(_mapping(_mapping(found.get("metadata")).get("labels")).get(KIND, ""))


def name_of(found: Mapping[str, Any]) -> str:
    """The name of an object; empty if it has none."""
    return str(_mapping(found.get("metadata")).get("name", ""))


def replaced_by(found: Mapping[str, Any]) -> Json:
    """The metadata of an update that can replace only this Lease: its version and its uid.

    Kubernetes creates a missing Lease on an update, whatever the version, unless a uid is given.

    Raises:
        StoreError: the Lease has no uid or version.
    """
    uid = _mapping(found.get("metadata")).get("uid")
    if not isinstance(uid, str) or not uid:
        raise StoreError("a Lease of Kubernetes has no uid")
    return {"resourceVersion": version_of(found), "uid": uid}


def member_lease(
    deployment: str, member: Member, lease: float, now: float, before: Mapping[str, Any] | None = None
) -> Json:
    """The Lease of a member, with a renewal time in unix seconds of the wall clock, which is only for people.

    `before` is the metadata for replacing a Lease, from `replaced_by`; None for a new Lease.
    """
    record = write_member(member)
    if len(record) > MAX_MEMBER:
        # For many RMs with long ids the loads are left out; only the balance depends on loads.
        record = write_member(replace(member, load={}))
    annotations = {RECORD: record.decode()}
    spec = {
        "holderIdentity": member.name or member.id,
        "leaseDurationSeconds": math.ceil(lease),
        "renewTime": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    return _lease(_metadata(deployment, "member", member.id, annotations, before), spec)


def ended_lease(found: Json) -> Json:
    """The Lease of an ended member, which replaces its current Lease."""
    metadata = _mapping(found.get("metadata"))
    annotations = {**_annotations(found), ENDED: "true"}
    kept = {key: metadata[key] for key in ("name", "labels") if key in metadata}
    spec = {key: value for key, value in _mapping(found.get("spec")).items() if key != "holderIdentity"}
    return _lease({**kept, "annotations": annotations, **replaced_by(found)}, spec)


def read_member_lease(found: Json, usual_lease: float) -> MemberLease:
    """Read the Lease of a member.

    Raises:
        ValueError: the Lease is not one of ours, or was edited.
    """
    given = _annotations(found)
    duration = _mapping(found.get("spec")).get("leaseDurationSeconds")
    if not isinstance(duration, int) or not 0 < duration <= MOST_LEASE:
        duration = usual_lease
    return MemberLease(
        member=read_member(MemberId(_text(given, ID)), _text(given, RECORD).encode()),
        version=version_of(found),
        duration=float(duration),
        ended=given.get(ENDED) == "true",
    )


def rm_lease(deployment: str, record: Ownership, before: Mapping[str, Any] | None = None) -> Json:
    """The Lease of an RM. `before` is from `replaced_by`; None for a new Lease."""
    annotations = {RECORD: write_ownership(record).decode()}
    # The holder is only for people, and is missing without an owner.
    spec = {"holderIdentity": record.owner} if record.owner else {}
    return _lease(_metadata(deployment, "rm", record.rm_id, annotations, before), spec)


def read_rm_lease(found: Json) -> Ownership:
    """Read the record of an RM.

    Raises:
        ValueError: the Lease is not one of ours, or was edited.
    """
    given = _annotations(found)
    return read_ownership(RmId(_text(given, ID)), _text(given, RECORD).encode(), revision_of(found))


def document_object(deployment: str, kind: str, key: str, value: bytes, revision: int) -> Json:
    """The object of a document, which replaces the object of `revision`; 0 for a new object."""
    is_secret = kind == SECRET
    before = {"resourceVersion": str(revision)} if revision else None
    return {
        "apiVersion": "v1",
        "kind": "Secret" if is_secret else "ConfigMap",
        "metadata": _metadata(deployment, kind, key, {}, before),
        "data" if is_secret else "binaryData": {"value": base64.b64encode(value).decode("ascii")},
    }


def read_document(found: Json) -> tuple[str, Document]:
    """Read the key and the document of an object.

    Raises:
        ValueError: the object is not one of ours, or was edited.
    """
    data = found.get("data" if kind_of(found) == SECRET else "binaryData")
    value = _mapping(data).get("value", "")
    if not isinstance(value, str):
        raise ValueError("its value is no text")
    document = Document(value=base64.b64decode(value, validate=True), revision=revision_of(found))
    return _text(_annotations(found), ID), document


def _lease(metadata: Json, spec: Json) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }


def _metadata(
    deployment: str, kind: str, key: str, annotations: Mapping[str, str], before: Mapping[str, Any] | None
) -> Json:
    """The metadata of all our objects, with an id of each write.

    Without the id an update without a change would keep the resourceVersion, if the clock stands still.
    """
    return {
        "name": object_name(deployment, kind, key),
        "labels": {DEPLOYMENT: deployment, KIND: kind},
        "annotations": {ID: key, WRITE: uuid4().hex, **annotations},
        **(before or {}),
    }


def _annotations(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(_mapping(found.get("metadata")).get("annotations"))


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, otherwise an empty object: users may have edited it."""
    return value if isinstance(value, dict) else {}


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str):
        raise ValueError(f"the annotation {key} is missing")
    return value
