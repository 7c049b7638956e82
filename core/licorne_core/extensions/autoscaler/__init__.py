"""Asks that wait for a larger cluster: quota admits them and no node takes them (spec § 8.12).

`scan` finds them, in parts. `extension` scans while asks wait, and has them told (`messages`) to an RM
that wants to hear of them: each once. `reports` counts them by size, for whoever reads the state instead.
"""

from typing import Final

NAME: Final = "autoscaler"
