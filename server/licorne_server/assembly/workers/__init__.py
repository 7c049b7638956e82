"""All cores of one host: a supervisor, and workers that share its RMs as members.

Input: the number of workers, and the options of `licorne serve`. Output: processes that serve one gRPC and
one HTTP address together, and a store in the supervisor's memory through which they are members of one
deployment. The supervisor serves no RM. It restarts a worker that has ended, and ends that worker's lease, so
that the other workers take over its RMs immediately.

`worker` runs one of the processes, and decides about back-off; `supervisor` controls them. Called by
`commands/serve_workers.py` only.
"""
