"""Generated from the .proto files of this path; nothing is hand-written."""
