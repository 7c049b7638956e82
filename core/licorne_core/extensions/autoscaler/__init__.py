"""Asks that wait for a larger cluster: quotas admit them, but they fit no node (spec § 8.12).

`scan` finds them, in parts. `extension` scans while asks wait, and reports each once (`messages`) to an RM
that wants these reports. `reports` counts them by size, for autoscalers that read `State` instead.
"""

from typing import Final

NAME: Final = "autoscaler"
