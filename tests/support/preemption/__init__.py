"""Small clusters as flat records, and preemption worked out by trying everything.

records      what a cluster is made of, and sums over it
rules        who may be a victim, and what must be left
brute_force  every set of victims on every node
drawing      random clusters
building     the core's own things, made from records
"""
