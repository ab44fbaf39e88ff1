"""Logs as plain lists, one epoch for each offset: slow references for the logs of the core.

They share no code with the core.
"""

import random

from quorum.core.messages import Batch
from quorum.core.raft_log import RaftLog
from quorum.core.vocabulary import Epoch, Offset

Epochs = list[int]


def as_view(epochs: Epochs) -> RaftLog:
    """The core's view of a log of batches of one record each, all on disk."""
    view = RaftLog(Offset(0), Offset(0), ())
    for offset, epoch in enumerate(epochs):
        view.append(Batch(Offset(offset), Offset(offset + 1), Epoch(epoch)))
    view.flushed(view.end)
    return view


def raft_logs(rng: random.Random, replicas: int, epochs: int) -> list[Epochs]:
    """Logs after elections, replication and failures, that of the last epoch's leader first.

    Each epoch has one leader, which only appends; others copy its log up to some offset. So the
    same epoch at the same offset means the same prefix, and nothing else is promised.
    """
    logs: list[Epochs] = [[] for _ in range(replicas)]
    leader = logs[0]
    for epoch in range(1, epochs + 1):
        leader = rng.choice(logs)
        for _ in range(rng.randrange(4)):
            leader += [epoch] * rng.randrange(3)
            for other in logs:
                copied = rng.randrange(len(leader) + 1)
                if other is not leader and rng.random() < 0.4 and copied > common(other, leader):
                    other[:] = leader[:copied]
    leader.append(epochs + 1)
    return [leader, *(each for each in logs if each is not leader)]


def common(one: Epochs, other: Epochs) -> int:
    """The length of the prefix that the two logs share."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length
