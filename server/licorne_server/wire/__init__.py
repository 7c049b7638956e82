"""Bytes to commands, and effects to bytes: the messages of `si.v1` and `licorne.v1`.

In: messages as bytes, or effects. Out: commands, or messages as bytes. Each size is checked before
work is done (`caps.py`), and a large message is read part by part (`framing.py`). `framing.py` finds
fields without parsing, `asks.py` is the hot input path, `responses.py` the hot output path.

Callers: every package. It imports none of them; `features.py` finds the modules of extensions by name.
"""
