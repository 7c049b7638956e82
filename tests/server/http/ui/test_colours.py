"""The colours of the page: texts and marks have enough contrast, in light and in dark."""

import re
from pathlib import Path

import pytest

from licorne_server.http.ui import page

TOKENS = (Path(str(page.FOLDER)) / "tokens.css").read_text()
PAIR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
ONE = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
COLOURS = {
    **{name: (light, dark) for name, light, dark in PAIR.findall(TOKENS)},
    **{name: (colour, colour) for name, colour in ONE.findall(TOKENS)},
}
GROUNDS = ("bg", "panel", "raised")
TEXTS = [
    *((text, ground) for text in ("ink", "muted", "accent") for ground in GROUNDS),
    *((text, ground) for text in ("good", "warn", "bad") for ground in (*GROUNDS, f"{text}-bg")),
    *(("ink", ground) for ground in ("accent-bg", "good-bg", "bad-bg")),
    ("accent", "accent-bg"),
    ("muted", "accent-bg"),
    ("on-accent", "accent"),
    ("on-accent", "bad"),
    ("nav-ink", "nav"),
    ("nav-strong", "nav"),
    ("nav-strong", "nav-current"),
    ("nav-ink", "nav-current"),
]
"""Each colour of texts with a background that it has somewhere."""
MARKS = [(mark, ground) for mark in ("used", "asked", "mark", "edge", "lamp") for ground in ("panel", "bg")]
"""Each colour of meaningful shapes with its background."""
THEMES = ("light", "dark")


def luminance(colour: str) -> float:
    """The luminance of a colour, by WCAG 2."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_texts_have_enough_contrast(theme: str) -> None:
    """WCAG AA: the contrast of texts is at least 4.5 to 1."""
    at = THEMES.index(theme)
    found = {(text, ground): contrast(COLOURS[text][at], COLOURS[ground][at]) for text, ground in TEXTS}
    assert {pair: round(value, 2) for pair, value in found.items() if value < 4.5} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_marks_have_enough_contrast(theme: str) -> None:
    """WCAG AA: the contrast of graphics is at least 3 to 1."""
    at = THEMES.index(theme)
    found = {(mark, ground): contrast(COLOURS[mark][at], COLOURS[ground][at]) for mark, ground in MARKS}
    assert {pair: round(value, 2) for pair, value in found.items() if value < 3} == {}


def test_every_colour_of_a_style_is_a_token() -> None:
    """Every name that a style uses is defined."""
    names = set(re.findall(r"--([\w-]+):", TOKENS)) | {"depth"}
    for file in Path(str(page.FOLDER)).glob("*.css"):
        assert set(re.findall(r"var\(--([\w-]+)", file.read_text())) <= names, file.name
