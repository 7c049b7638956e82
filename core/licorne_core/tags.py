"""The tags of an application, whose keys are compared without regard to case (spec § 1.5)."""

from collections.abc import Mapping


def tag_value(tags: Mapping[str, str], name: str) -> str:
    """The value of a tag, empty if there is none.

    Among keys that differ in case only, the one spelt like `name` counts, or else the first in
    alphabetical order. The order in which tags arrive means nothing.
    """
    exact = tags.get(name)
    if exact is not None:
        return exact
    wanted = name.lower()
    return min(((key, tags[key]) for key in tags if key.lower() == wanted), default=("", ""))[1]
