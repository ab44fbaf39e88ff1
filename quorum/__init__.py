"""The quorum: a few nodes that agree, by Raft, on one log.

`quorum` agrees on a log. `quorum/core` decides; the rest of `quorum` waits, stores and sends.
It does not know what a partition is: what the records mean is somebody else's affair.
"""
