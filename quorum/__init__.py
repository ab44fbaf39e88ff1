"""The quorum: a few nodes that replicate one log by Raft.

`quorum/core` decides; the rest of `quorum` waits, stores and sends. The records are opaque bytes
here: a state machine above gives them their meaning.
"""
