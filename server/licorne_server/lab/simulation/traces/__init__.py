"""Readers of published workload traces, each in the format in which it is published.

Input: files, plain or compressed by gzip. Output: a `Trace`, which streams one `TraceJob` for each job that
can be played, and counts the others by reason. Rows are read one by one, and no line may be longer than
`files.MAX_LINE`. An error in a file raises `TraceError` with the file, the line and the field.

Callers: `simulation/workload.py` makes jobs for the core from a trace, and `lab/commands/simulate.py` opens
the files. `opening.py` finds the format of files; each other module has one format, or one form of files.
"""
