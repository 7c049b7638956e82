"""The command journal: every command of the core with its time, on disk, so that it can be replayed.

Input: the commands that the engine passes to the core, and their effects. Output: the files of one
*run* for each start of the server, and their records for replay.

`writer` wraps the core, records its commands, and has the thread that writes; `codec` writes and reads
commands by the table of `forms`, and `digest` sums up decisions. `folder` is the directory with its lock
and its bound, and the layout of its files, whose content is not trusted. The journal of events in the core
(`model/rm_context.py`) is unrelated. Called by `assembly/server.py`, and by the commands that replay.
"""
