"""Small clusters as flat records, and preemption by exhaustive search.

records      contents of a cluster, and sums over it
brute_force  every set of victims on every node, and the rules for them
drawing      random clusters
building     the core's own objects, made from records, and random changes of them
asking       searches, and enforcement of a maximum
"""
