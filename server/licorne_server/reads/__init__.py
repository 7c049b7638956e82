"""What the server says of itself and of the core: lists, sums, reasons, history and explanations.

In: views of the core, and the figures of the other rooms (`sources.py`). Out: messages of State, and values
that REST and the page give their own forms. `paging.py` reads long lists by pages and in slices of time,
`members.py` asks the other members over HTTP, and `history/` is what was sampled.

Callers: `services/`, `http/`, `extensions/` and `assembly/`; `lab/` for the forms of explanations.
"""
