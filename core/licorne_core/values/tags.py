"""Tags of an application, whose keys are compared without regard to case (spec § 1.5)."""

from collections.abc import Iterator, Mapping


class IndexedTags(Mapping[str, str]):
    """Tags for many lookups: after the first one, each costs the same.

    The tags must not change.
    """

    __slots__ = ("_keys", "_tags")

    def __init__(self, tags: Mapping[str, str]) -> None:
        """Take the tags; the index is made on the first lookup."""
        self._tags = tags
        # The key that counts of those that differ in case only, by its lower case.
        self._keys: dict[str, str] | None = None

    def __getitem__(self, key: str) -> str:
        """The value under exactly that key; raises KeyError."""
        return self._tags[key]

    def __iter__(self) -> Iterator[str]:
        """All keys."""
        return iter(self._tags)

    def __len__(self) -> int:
        """Number of tags."""
        return len(self._tags)

    def first(self, name: str) -> str:
        """The value of the first key in alphabetical order that is the name but for case."""
        if self._keys is None:
            self._keys = {}
            for key in self._tags:
                wanted = key.lower()
                if key <= self._keys.get(wanted, key):
                    self._keys[wanted] = key
        found = self._keys.get(name.lower())
        return "" if found is None else self._tags[found]


def tag_value(tags: Mapping[str, str], name: str) -> str:
    """The value of a tag, empty if there is none.

    Among keys that differ in case only, the one spelt like `name` counts, or else the first in
    alphabetical order. The order in which tags arrive means nothing.
    """
    exact = tags.get(name)
    if exact is not None:
        return exact
    if isinstance(tags, IndexedTags):
        return tags.first(name)
    wanted = name.lower()
    return min(((key, tags[key]) for key in tags if key.lower() == wanted), default=("", ""))[1]
