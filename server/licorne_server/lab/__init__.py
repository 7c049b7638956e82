"""The laboratory: what was recorded, or could be, decided by a core of its own, and RMs that are played.

`simulation/` has the core in virtual time, `demo/` clusters and RMs that are made up, and `commands/` the
commands `simulate`, `replay`, `why` and `fake-rm`. It uses the public interface of the core, the
records of the journal, the forms of explanations, and the commands that start a server. Nothing of the server
imports it; `COMMANDS` names its commands.
"""
