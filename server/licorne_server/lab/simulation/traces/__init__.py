"""Readers of published workload traces, each in the format in which it is published.

Input: files, plain or compressed by gzip. Output: a `Trace`, which streams one `TraceJob` for each job
that can be played, and counts the others by reason. A row is read at a time, and no line may be longer than
`files.MAX_LINE`. Faults of a file are `TraceError`, which names file, line and field.

Callers: `simulation/workload.py` makes jobs for the core of these, `lab/commands/simulate.py` opens the
files.
`opening.py` finds the format of files; each other module has one format, or one form of files.
"""
