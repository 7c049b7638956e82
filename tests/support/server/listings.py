"""What a listing shows of one item."""

from typing import TypeVar

from licorne_cli.output.listing import Listing
from licorne_cli.output.text import printable

T = TypeVar("T")


def cells(listing: Listing[T], item: T) -> dict[str, str]:
    """The cells of its first row, by header."""
    row = next(iter(listing.rows(item)))
    return {column.header: printable(column.cell(row)) for column in listing.columns}
