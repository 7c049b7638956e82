"""Commands of `licorne` for records, workloads and played RMs."""
