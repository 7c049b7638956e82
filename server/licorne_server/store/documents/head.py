"""The first line of an RM's document: ``epoch N``, the epoch of the owner that wrote it. Content follows."""

from licorne_server.store.documents.documents import Document

_MARK = b"epoch "
_DIGITS = 20


def headed(content: bytes, epoch: int) -> bytes:
    """Make a document with an owner's epoch. Without content it only marks the owner."""
    return b"%s%d\n%s" % (_MARK, epoch, content)


def content_of(value: bytes) -> bytes:
    """The content of a document; of one without such a line, the whole document."""
    return value.partition(b"\n")[2] if value.startswith(_MARK) else value


def epoch_of(document: Document) -> int:
    """The epoch of the owner that has written the document; 0 without such a line."""
    number = document.value.partition(b"\n")[0].removeprefix(_MARK)
    is_said = document.value.startswith(_MARK) and number.isdigit() and len(number) <= _DIGITS
    return int(number) if is_said else 0


MAX_HEAD = len(headed(b"", 0)) + _DIGITS
"""Bytes of the line, at most."""
