"""Commands of `licorne` for journals, workloads and simulated RMs."""
