"""Plans: effects of a configuration and of a submission, and changes with which an ask starts (spec § 13).

A plan handles the command on a copy of the live scheduler, and the copy decides as usual. So plans have no
rules of their own. The copy cannot be used again.

The RM is assumed to accept every node and every choice of victims, and to confirm every stop immediately.
There is no other input, and no allocation ends by itself. Other RMs are on hold, as no RM's decisions depend
on another RM.

The clock of the copy runs until the delays of preemption are over (`rehearsal.py`), so that a plan shows
victims too. Each entry has its time in seconds from now.
"""

from licorne_core.whatif.configuration import plan_configuration
from licorne_core.whatif.starting import lacks, search_start, try_start
from licorne_core.whatif.submission import plan_submission

__all__ = ["lacks", "plan_configuration", "plan_submission", "search_start", "try_start"]
