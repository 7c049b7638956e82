"""Notice of preemption: an RM is told of its victims before they are stopped (spec §§ 9.4-9.6).

A victim of a queue with `preemption.notice` (`keys`) is stopped at a deadline. Until then it runs on, and
its RM may save its work and say that it is ready (`messages`). Others count on its room from the notice
on, as they do from a stop: what it will free is promised to its beneficiary. If that needs it no more,
the victim is spared. So the RM of a victim under notice loses nothing to an ask that is removed
meanwhile.

Placeholders do no work, and drains have deadlines of their own: neither have notice.

`extension` puts stops off, and `handlers` has what becomes of the victims: by their RM's answers, at their
deadlines, and by the laws, which are asked again then (`standing`). `reports` counts them.
"""

from typing import Final

NAME: Final = "notice"
