"""The files of the page, which are fixed at the start of the process."""

from importlib.resources import files

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content types of the page's files, by suffix."""

INDEX = "index.html"
FOLDER = files("licorne_server.http.ui") / "static"

STATIC = {
    f"/ui/static/{file.name}": file
    for file in sorted(FOLDER.iterdir(), key=lambda file: file.name)
    if file.name.endswith(tuple(CONTENT_TYPES))
}
"""Files of the page by path: fixed at the start, so that no path leads to another file."""
