"""Metrics of the journal of commands, for servers that write one."""

from licorne_server.http.families import counter, gauge

JOURNAL = (
    gauge(
        "licorne_journal_writing",
        "1 while the journal is written; 0 since it has stopped. Not there without a journal.",
        lambda state: int(not state.problem),
    ),
    gauge("licorne_journal_bytes", "Bytes of the journal on disk, old runs included.", "size"),
    counter("licorne_journal_inputs_total", "Commands noted in the journal.", "inputs"),
)
"""Metrics of `JournalState`."""
