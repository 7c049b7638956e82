"""Notice of preemption: an RM is notified of its victims before they are stopped (spec §§ 9.4-9.6).

A victim of a queue with `preemption.notice` (`keys`) is stopped at a deadline. Until then it continues to
run, and its RM may save its work and report it as ready (`messages`). From the notice on, its room is
promised to its beneficiary, as after a stop. If the beneficiary does not need it any more, the victim is
spared. So no work is lost for an ask that is removed during the notice.

Placeholders do no work, and drains have deadlines of their own: neither have notice.

`extension` delays stops, and `handlers` decides about the victims: by their RM's answers, at their deadlines,
and by the laws, which are then checked again (`standing`). `reports` counts them.
"""

from typing import Final

NAME: Final = "notice"
