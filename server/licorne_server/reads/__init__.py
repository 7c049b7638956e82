"""Reports about the server and its core: lists, totals, reasons, history and explanations.

In: views of the core, and the figures of the other packages (`sources.py`). Out: messages of State, and
values that REST and the page format themselves. `findings.py` has all rules for findings, and `verdict.py`
the verdict in the form that all outputs share. `paging.py` reads long lists by pages and in time slices,
`members.py` asks the other members, and `history/` has sampled values.

Callers: `services/`, `http/`, `extensions/` and `assembly/`; `lab/` uses only the messages of explanations.
"""
