"""Tags of an application, whose keys are compared without regard to case (spec § 1.5)."""

from collections import Counter
from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.rule_kinds import IndexedTags, tag_value

names = st.text("aAbB", max_size=2)


@given(st.dictionaries(names, st.text("xyz", max_size=1), max_size=8), names)
def test_indexed_tags_and_a_full_scan_find_the_same_values(tags: dict[str, str], name: str) -> None:
    """The index of tags finds the same values as a scan, for any order and case of the keys."""
    indexed = IndexedTags(tags)
    for wanted in (name, *tags):
        assert tag_value(indexed, wanted) == tag_value(tags, wanted)


class Counted(Mapping[str, str]):
    """Tags with a count of the iterations over their keys."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        """Start with zero iterations."""
        self._tags = tags
        self.looks: Counter[str] = Counter()

    def __getitem__(self, key: str) -> str:
        """The value of the key; raises KeyError."""
        return self._tags[key]

    def __iter__(self) -> Iterator[str]:
        """All keys; the iteration is counted."""
        for key in self._tags:
            self.looks[key] += 1
            yield key

    def __len__(self) -> int:
        """The number of tags."""
        return len(self._tags)


def test_indexed_tags_are_scanned_once() -> None:
    """Many lookups iterate only once over the tags of an application."""
    tags = Counted({f"Tag{number}": str(number) for number in range(50)})
    indexed = IndexedTags(tags)
    assert [tag_value(indexed, f"tag{number}") for number in range(60)] == [
        *map(str, range(50)),
        *[""] * 10,
    ]
    assert set(tags.looks.values()) == {1}


def test_of_keys_that_differ_in_case_the_requested_spelling_is_first() -> None:
    """A lookup prefers the requested spelling of a key, and then the first key in alphabetical order."""
    assert tag_value({"TAG": "1", "Tag": "2", "tag": "3"}, "tag") == "3"
    assert tag_value({"Tag": "2", "TAG": "1"}, "tag") == "1"
    assert tag_value({"other": "1"}, "tag") == ""
