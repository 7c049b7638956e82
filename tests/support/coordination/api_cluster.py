"""The objects of a played cluster: versions, history, and pages of lists."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass

from support.coordination.api_rules import Json, Refusal, selects, validate, without_version

NAMESPACE = "licorne"
_KINDS = {
    "leases": ("Lease", "coordination.k8s.io/v1"),
    "configmaps": ("ConfigMap", "v1"),
    "secrets": ("Secret", "v1"),
}

Objects = dict[tuple[str, str], Json]
"""Objects by kind and name."""


@dataclass
class Change:
    """A write."""

    version: int
    kind: str
    plural: str
    item: Json
    before: Json | None


class Cluster:
    """Objects that change under one rising version. An object that is stored is never changed in place."""

    def __init__(self) -> None:
        """Start empty. Versions begin high, as those of a used cluster."""
        self.version = 4_711
        self.compacted = 0
        """The version before which there is no history."""
        self.objects: Objects = {}
        self.history: list[Change] = []
        """What was written since the last compaction."""
        self.changed = asyncio.Event()
        """Set, and replaced, by every change."""
        self._pages: dict[str, tuple[int, list[Json]]] = {}

    def named(self, plural: str, part: str) -> Json:
        """The one object of a kind with that in its name."""
        [found] = [item for (kind, name), item in self.objects.items() if kind == plural and part in name]
        return found

    def compact(self) -> None:
        """Forget history: pages and watches from older versions end with 410."""
        self.compacted = self.version
        self.history.clear()
        self._pages.clear()

    def edit(self, plural: str, part: str, change: Callable[[Json], None]) -> None:
        """Change an object, as a person with kubectl does."""
        item = copy.deepcopy(self.named(plural, part))
        change(item)
        self._store("MODIFIED", plural, item)

    def remove(self, plural: str, part: str) -> None:
        """Delete an object, as a person with kubectl does."""
        self.delete(plural, self.named(plural, part))

    def create(self, plural: str, item: Json) -> Json:
        """Store an object under a name that is free."""
        name = item["metadata"]["name"]
        if (plural, name) in self.objects:
            raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
        if item["metadata"].get("resourceVersion"):
            raise Refusal(422, "Invalid", "resourceVersion should not be set on objects to be created")
        return self._store("ADDED", plural, item)

    def update(self, plural: str, name: str, found: Json, item: Json) -> Json:
        """Store an object in place of the one of its version."""
        if item["metadata"]["name"] != name:
            raise Refusal(400, "BadRequest", "the name of the object does not match the URL")
        version = item["metadata"].get("resourceVersion")
        if not version:
            raise Refusal(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
        if version != found["metadata"]["resourceVersion"]:
            raise conflict(plural, name)
        # Kubernetes writes nothing if nothing has changed: the version stays.
        if without_version(item, plural) == without_version(found, plural):
            return found
        return self._store("MODIFIED", plural, item)

    def _store(self, change: str, plural: str, item: Json) -> Json:
        validate(plural, item)
        kind, version = _KINDS[plural]
        key = (plural, item["metadata"]["name"])
        self.version += 3
        stored = copy.deepcopy(item) | {"kind": kind, "apiVersion": version}
        stored["metadata"] |= {"namespace": NAMESPACE, "resourceVersion": str(self.version)}
        self.history.append(Change(self.version, change, plural, stored, self.objects.get(key)))
        self.objects[key] = stored
        self.wake()
        return stored

    def delete(self, plural: str, found: Json) -> Json:
        """Delete an object."""
        self.version += 3
        last = copy.deepcopy(found)
        last["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(Change(self.version, "DELETED", plural, last, found))
        del self.objects[plural, found["metadata"]["name"]]
        self.wake()
        return last

    def wake(self) -> None:
        """Let all watches look."""
        self.changed.set()
        self.changed = asyncio.Event()

    def page(self, plural: str, selector: str, limit: int, after: str, stale: Objects | None = None) -> Json:
        """A page of a list, after the one before; from older objects if some are given."""
        if after:
            if after not in self._pages:
                raise Refusal(410, "Expired", "The provided continue parameter is too old")
            version, items = self._pages[after]
        else:
            version = self.version
            items = [
                item
                for (kind, _), item in sorted((self.objects if stale is None else stale).items())
                if kind == plural and selects(selector, item)
            ]
        metadata: Json = {"resourceVersion": str(version)}
        if 0 < limit < len(items):
            metadata["continue"] = f"page-{len(self._pages)}-{version}"
            self._pages[metadata["continue"]] = (version, items[limit:])
        kind, group = _KINDS[plural]
        return {
            "kind": f"{kind}List",
            "apiVersion": group,
            "metadata": metadata,
            "items": items[: limit or None],
        }


def conflict(plural: str, name: str) -> Refusal:
    """The answer to a write of another version."""
    text = f'Operation cannot be fulfilled on {plural} "{name}": the object has been modified'
    return Refusal(409, "Conflict", text)


def event(change: Change, plural: str, selector: str) -> tuple[str, Json] | None:
    """The event that a watch with a selector gets: an object may come into its view, and leave it."""
    if change.plural != plural:
        return None
    was = change.before is not None and selects(selector, change.before)
    is_now = change.kind != "DELETED" and selects(selector, change.item)
    if is_now:
        return ("MODIFIED" if was else "ADDED"), change.item
    return ("DELETED", change.item) if was else None
