"""The fields of an ask that the wire carries as allocation tags.

The published interface has no fields of its own for them. The server compares the names of tags
without regard to case, and so does this module.
"""

from collections.abc import Mapping

from licorne.model import Ask

TAGS: Mapping[str, str] = {
    "required_node": "yunikorn.apache.org/requiredNode",
    "predicate_class": "licorne/predicate-class",
    "traceparent": "licorne/traceparent",
}
"""By field of `Ask`: the tag that carries it."""


def contradiction(ask: Ask) -> tuple[str, str] | None:
    """A field and the tag that says something else; None if there is none.

    Fields and tags must be of the right types.
    """
    for field, name in TAGS.items():
        value = getattr(ask, field)
        if value:
            for tag, content in ask.tags.items():
                if tag.lower() == name.lower() and content != value:
                    return field, tag
    return None


def has_fields(ask: Ask) -> bool:
    """True if an ask sets any of these fields."""
    return bool(ask.required_node or ask.predicate_class or ask.traceparent)


def all_tags(ask: Ask) -> Mapping[str, str]:
    """The tags of an ask, with those of its fields. A field that a tag says too adds nothing."""
    if not has_fields(ask):
        return ask.tags
    there = {tag.lower() for tag in ask.tags}
    said = {
        name: getattr(ask, field)
        for field, name in TAGS.items()
        if getattr(ask, field) and name.lower() not in there
    }
    return {**ask.tags, **said}
