"""The Raft core (KIP-595) without I/O: no asyncio, clock, file, socket, logging or codec.

`QuorumNode.step(event, now_ms)` returns the effects to perform. The same events at the same
times give the same effects, in production, in a unit test and in a simulation.
"""
