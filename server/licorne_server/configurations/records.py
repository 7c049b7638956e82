"""The stored form of an RM's revisions.

The first line is the SHA-256 of the rest, which is a JSON document. Texts are outside it, by their
SHA-256. So are extra configurations, as JSON. Records of earlier versions have none of these.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from licorne_core.values.ids import RmId
from licorne_server.configurations.revisions import Revision, Revisions, Source

FORMAT = 1


class Damaged(Exception):
    """A record is damaged; the text gives the damage."""


def digest_of(data: bytes) -> str:
    """SHA-256 in lower-case hex."""
    return sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """The key of a stored text."""
    return digest_of(text.encode())


def texts_of(revisions: Revisions) -> dict[str, str]:
    """The texts that belong to the revisions, by digest."""
    texts = {revisions.said, revisions.said_extra}
    for revision in revisions.kept:
        texts |= {revision.text, revision.extra}
    return {text_digest(text): text for text in texts if text}


def encode(revisions: Revisions) -> bytes:
    """The record of the revisions."""
    document = {
        "format": FORMAT,
        "rm_id": revisions.rm_id,
        "said": _named(revisions.said),
        "said_extra": _named(revisions.said_extra),
        "revisions": [
            {
                "revision": revision.number,
                "source": revision.source.value,
                "time": revision.time,
                "by": revision.by,
                "comment": revision.comment,
                "checksum": revision.checksum,
                "text": text_digest(revision.text),
                "extra": _named(revision.extra),
                "instead_of": revision.instead_of,
            }
            for revision in revisions.kept
        ],
    }
    body = json.dumps(document, indent=1).encode() + b"\n"
    return digest_of(body).encode() + b"\n" + body


def needed_texts(data: bytes) -> set[str]:
    """The digests of the texts that a record needs.

    Raises:
        Damaged: it is no record.
    """
    document = _document(data)
    try:
        needed = {str(document["said"]), str(document.get("said_extra", ""))}
        for item in document["revisions"]:
            needed |= {str(item["text"]), str(item.get("extra", ""))}
        return needed - {""}
    except (KeyError, TypeError) as error:
        raise Damaged(f"something is missing: {error}") from None


def decode(data: bytes, texts: Mapping[str, str]) -> Revisions:
    """Revisions of a record; `texts` holds its texts by digest.

    Raises:
        Damaged: it is no record, or a text of it is missing.
    """
    document = _document(data)
    try:
        revisions = Revisions(
            rm_id=RmId(str(document["rm_id"])),
            said=_text(document["said"], texts),
            said_extra=_text(document.get("said_extra", ""), texts),
            kept=tuple(_revision(item, texts) for item in document["revisions"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"something is missing or wrong: {error}") from None
    numbers = [revision.number for revision in revisions.kept]
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise Damaged(f"the revisions are not in order: {numbers}")
    return revisions


def _revision(item: Mapping[str, Any], texts: Mapping[str, str]) -> Revision:
    text = texts[item["text"]]
    return Revision(
        number=int(item["revision"]),
        source=Source(item["source"]),
        time=int(item["time"]),
        by=str(item["by"]),
        comment=str(item["comment"]),
        checksum=str(item["checksum"]),
        text=text,
        size=len(text.encode()),
        extra=_text(item.get("extra", ""), texts),
        instead_of=int(item.get("instead_of", 0)),
    )


def _text(digest: str, texts: Mapping[str, str]) -> str:
    """The text of that name; empty for none."""
    return texts[digest] if digest else ""


def _named(text: str) -> str:
    """The key of a stored text; empty for none."""
    return text_digest(text) if text else ""


def _document(data: bytes) -> Any:
    """The JSON document of a record that is whole."""
    first, _, body = data.partition(b"\n")
    if first.decode("ascii", "replace") != digest_of(body):
        raise Damaged("it is not what was written: the checksum in its first line is another one")
    document = json.loads(body)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Damaged(f"it is not of format {FORMAT}: another version has written it")
    return document
