"""Lowered maxima, under the names of the older core."""

QUEUE = {"isQuotaPreemptionRunning": "quota_preemption_running"}
QUEUE_OPTIONAL = {"quotaPreemptionStartTime": "quota_preemption_time"}
PARTITION = {"quotaPreemptionEnabled": "quota_preemption_enabled"}
PARTITION_ON_PAGE = {"quotaPreemption": "quota_preemption_enabled"}
SWITCHES = {"preemption.quotapreemptionenabled": "quota preemption"}
CONFIG_KEYS = {"quotapreemptionenabled": "QuotaPreemptionEnabled"}
