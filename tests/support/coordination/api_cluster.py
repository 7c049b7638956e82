"""The objects of a played cluster: versions, history, and pages of lists."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from support.coordination.api_rules import (
    KINDS,
    Json,
    Refusal,
    bad_request,
    selects,
    validate,
    without_version,
)

NAMESPACE = "licorne"

_PAGE = "page-"
"""The beginning of page tokens."""

Objects = dict[tuple[str, str], Json]
"""Objects by kind and name."""


@dataclass
class Change:
    """A write of an object."""

    version: int
    kind: str
    plural: str
    item: Json
    before: Json | None


class Cluster:
    """Objects with one rising version for all. A stored object is never changed in place."""

    def __init__(self) -> None:
        """Start empty. Versions begin high, like those of a used cluster."""
        self.version = 4_711
        self.compacted = self.version
        """The version of the last compaction."""
        self.objects: Objects = {}
        self.history: list[Change] = []
        """The writes since the last compaction."""
        self.changed = asyncio.Event()
        """Set, and replaced, by every change."""
        self._pages: dict[str, tuple[int, list[Json]]] = {}

    def named(self, plural: str, part: str) -> Json:
        """The only object of a kind whose name contains `part`."""
        [found] = [item for (kind, name), item in self.objects.items() if kind == plural and part in name]
        return found

    def compact(self) -> None:
        """Forget history: pages and watches from older versions end with 410."""
        self.compacted = self.version
        self.history.clear()
        self._pages.clear()

    def edit(self, plural: str, part: str, change: Callable[[Json], None]) -> None:
        """Change an object, like a person with kubectl."""
        item = copy.deepcopy(self.named(plural, part))
        change(item)
        self._store(plural, item)

    def remove(self, plural: str, part: str) -> None:
        """Delete an object, like a person with kubectl."""
        self.delete(plural, self.named(plural, part)["metadata"]["name"], {})

    def get(self, plural: str, name: str) -> Json:
        """An object; raises 404 if there is none."""
        if (plural, name) not in self.objects:
            raise Refusal(404, "NotFound", f'{KINDS[plural].full} "{name}" not found')
        return self.objects[plural, name]

    def create(self, plural: str, item: Json) -> Json:
        """Store an object under a name that is free."""
        if item["metadata"].get("resourceVersion", "0") not in ("", "0"):
            raise Refusal(500, "", "resourceVersion should not be set on objects to be created")
        validate(KINDS[plural], item)
        name = item["metadata"]["name"]
        if (plural, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{KINDS[plural].full} "{name}" already exists')
        return self._store(plural, item)

    def update(self, plural: str, name: str, item: Json) -> tuple[Json, bool]:
        """Store an object if its version is the present one; return it, and whether it was created."""
        metadata = item["metadata"]
        if metadata.get("name") != name:
            raise bad_request(f"the name of the object does not match the name on the URL ({name})")
        found = self.objects.get((plural, name))
        if found is None:
            return self._create_by_update(plural, item), True
        if metadata.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            raise conflict(plural, name, "Precondition failed: UID in precondition")
        version = metadata.get("resourceVersion", "") or "0"
        if not version.isdecimal():
            raise Refusal(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version == "0":
            # Config maps and secrets may be overwritten without a version.
            if plural == "leases":
                raise Refusal(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
        elif version != found["metadata"]["resourceVersion"]:
            raise conflict(plural, name)
        validate(KINDS[plural], item)
        return self._store(plural, item), False

    def _create_by_update(self, plural: str, item: Json) -> Json:
        """Create a missing Lease, whatever version the update names, unless the update has an id."""
        name = item["metadata"]["name"]
        if item["metadata"].get("uid"):
            raise conflict(plural, name, "Precondition failed: UID in precondition")
        if plural != "leases":
            self.get(plural, name)
        validate(KINDS[plural], item)
        return self._store(plural, item)

    def _store(self, plural: str, item: Json) -> Json:
        kind = KINDS[plural]
        key = (plural, item["metadata"]["name"])
        before = self.objects.get(key)
        given = {"id": str(UUID(int=self.version)), "created": "2026-01-01T00:00:00Z"}
        if before is not None:
            old = before["metadata"]
            given = {"id": old["uid"], "created": old["creationTimestamp"]}
        stored = {"kind": kind.name, "apiVersion": kind.version, **copy.deepcopy(item)}
        stored["metadata"] |= {"namespace": NAMESPACE, "uid": given["id"]}
        stored["metadata"] |= {"creationTimestamp": given["created"]}
        if plural == "leases":
            stored.setdefault("spec", {})
        # Kubernetes writes nothing if the update changes nothing: the version remains.
        if before is not None and without_version(stored) == without_version(before):
            return before
        self.version += 3
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(Change(self.version, "MODIFIED" if before else "ADDED", plural, stored, before))
        self.objects[key] = stored
        self.wake()
        return stored

    def delete(self, plural: str, name: str, preconditions: Json) -> Json:
        """Delete an object if the preconditions hold; return the answer."""
        found = self.get(plural, name)
        for field in ("uid", "resourceVersion"):
            if preconditions.get(field, found["metadata"][field]) != found["metadata"][field]:
                raise conflict(plural, name, f"the {field} in the precondition does not match")
        self.version += 3
        last = copy.deepcopy(found)
        last["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(Change(self.version, "DELETED", plural, last, found))
        del self.objects[plural, name]
        self.wake()
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def wake(self) -> None:
        """Let all watches check for changes."""
        self.changed.set()
        self.changed = asyncio.Event()

    def page(self, plural: str, selector: str, limit: int, after: str, stale: Objects | None = None) -> Json:
        """A page of a list, the first one or that of a token; from older objects if `stale` has some."""
        if after:
            if not after.startswith(_PAGE):
                raise bad_request(f"invalid continue token: {after!r}")
            if after not in self._pages:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            version, items = self._pages[after]
        else:
            version = self.version
            items = self.selected(plural, selector, stale)
        metadata: Json = {"resourceVersion": str(version)}
        if 0 < limit < len(items):
            metadata["continue"] = f"{_PAGE}{len(self._pages)}-{version}"
            self._pages[metadata["continue"]] = (version, items[limit:])
        kind = KINDS[plural]
        return {
            "kind": f"{kind.name}List",
            "apiVersion": kind.version,
            "metadata": metadata,
            # Kind and version of the API are in the list only, and not in its items.
            "items": [
                {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
                for item in (items[:limit] if limit > 0 else items)
            ],
        }

    def selected(self, plural: str, selector: str, stale: Objects | None = None) -> list[Json]:
        """The objects of a kind with the labels of a selector, by name."""
        found = sorted((self.objects if stale is None else stale).items())
        return [item for (kind, _), item in found if kind == plural and selects(selector, item)]


def conflict(plural: str, name: str, why: str = "the object has been modified") -> Refusal:
    """The refusal of a write that names another version."""
    full = KINDS[plural].full
    return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {full} "{name}": {why}')


def event(change: Change, plural: str, selector: str) -> tuple[str, Json] | None:
    """The event of a watch with a selector, whose view objects enter and leave; None outside of it."""
    if change.plural != plural:
        return None
    was = change.before is not None and selects(selector, change.before)
    is_now = change.kind != "DELETED" and selects(selector, change.item)
    if is_now:
        return ("MODIFIED" if was else "ADDED"), change.item
    return ("DELETED", change.item) if was else None
