"""The files of the page, which are fixed at the start of the process."""

from importlib.resources import files

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The kinds of files that the page is made of."""

INDEX = "index.html"
FOLDER = files("licorne_server.http.ui") / "static"

STATIC = {
    f"/ui/static/{file.name}": file
    for file in sorted(FOLDER.iterdir(), key=lambda file: file.name)
    if file.name.endswith(tuple(CONTENT_TYPES))
}
"""Files of the page by path: fixed at the start, so that no path leads to another file."""

PUBLIC = frozenset({"/", "/ui", "/ui/", *STATIC})
"""Paths without data of any RM: they need no token."""
