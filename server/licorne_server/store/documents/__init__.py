"""Documents: the persistent state of a server, as small named values with revisions.

`documents` is the interface with its promises. `kept` stores documents in memory and on the disk of one
process, and the stores of `coordination/` those of several members. `owned` has the documents of RMs, each of
which only the RM's owner writes. `encoding` converts dataclasses to JSON and back.

A user of documents defines their keys, their encoding, and how concurrent changes are merged. It
needs no thread, no files, and no rule of its own for a full disk or a store that does not answer.
"""
