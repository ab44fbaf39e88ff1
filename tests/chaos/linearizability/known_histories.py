"""Histories that are known to be linearizable or not: a story, the verdict, what clients were told.

Each has one key; a time is a position on paper.
"""

from collections.abc import Hashable

from chaos.linearizability.checker import Key, Operation, Verdict
from chaos.linearizability.models import (
    Absent,
    Accepted,
    Cancel,
    Cancelled,
    Create,
    Created,
    Delete,
    Deleted,
    Describe,
    Done,
    Exists,
    Get,
    List,
    Look,
    Moving,
    NothingUnderWay,
    Over,
    Pause,
    Reassign,
    Refused,
    Resume,
    Set,
    UnderWay,
    Value,
)

CONFIG: Key = ("config", "t", "retention.ms")
TOPIC: Key = ("topic", "t")
PARTITION: Key = ("partition", "t", "0")
MOVE: Key = ("move", "1")

YES, NO = Verdict.YES, Verdict.NO
LOST = None
"""The answer never came."""

Line = tuple[int, int | None, Hashable, Hashable]
"""Called at, returned at, what was asked, what was answered."""


def history(key: Key, *lines: Line) -> list[Operation]:
    return [
        Operation(key=key, asked=asked, called=called, returned=returned, answer=answer)
        for called, returned, asked, answer in lines
    ]


KNOWN: list[tuple[str, Verdict, list[Operation]]] = [
    (
        "what was written is read",
        YES,
        history(CONFIG, (0, 1, Set("a"), Done()), (2, 3, Get(), Value("a"))),
    ),
    (
        "a stale read",
        NO,
        history(CONFIG, (0, 1, Set("a"), Done()), (2, 3, Get(), Value(None))),
    ),
    (
        "a read beside a write may come before it",
        YES,
        history(CONFIG, (0, 9, Set("a"), Done()), (2, 3, Get(), Value(None))),
    ),
    (
        "a read beside a write may come after it",
        YES,
        history(CONFIG, (0, 9, Set("a"), Done()), (2, 3, Get(), Value("a"))),
    ),
    (
        "once read, a write beside the reads stays read",
        NO,
        history(
            CONFIG,
            (0, 9, Set("a"), Done()),
            (1, 2, Get(), Value("a")),
            (3, 4, Get(), Value(None)),
        ),
    ),
    (
        "two writes at once end in either order",
        YES,
        history(
            CONFIG, (0, 9, Set("a"), Done()), (0, 9, Set("b"), Done()), (10, 11, Get(), Value("a"))
        ),
    ),
    (
        "but not in both orders",
        NO,
        history(
            CONFIG,
            (0, 9, Set("a"), Done()),
            (0, 9, Set("b"), Done()),
            (10, 11, Get(), Value("a")),
            (12, 13, Get(), Value("b")),
        ),
    ),
    (
        "a write that timed out happens much later",
        YES,
        history(
            CONFIG,
            (0, LOST, Set("a"), None),
            (1, 2, Set("b"), Done()),
            (3, 4, Get(), Value("b")),
            (5, 6, Get(), Value("a")),
        ),
    ),
    (
        "a write that timed out never happens",
        YES,
        history(CONFIG, (0, LOST, Set("a"), None), (5, 6, Get(), Value(None))),
    ),
    (
        "a write that timed out happens once",
        NO,
        history(
            CONFIG,
            (0, LOST, Set("a"), None),
            (1, 2, Get(), Value("a")),
            (3, 4, Set("b"), Done()),
            (5, 6, Get(), Value("a")),
        ),
    ),
    (
        "two of the same that timed out happen twice",
        YES,
        history(
            CONFIG,
            (0, LOST, Set("a"), None),
            (0, LOST, Set("a"), None),
            (1, 2, Get(), Value("a")),
            (3, 4, Set("b"), Done()),
            (5, 6, Get(), Value("a")),
        ),
    ),
    (
        "nothing happens before it is asked for",
        NO,
        history(CONFIG, (1, 2, Get(), Value("a")), (3, LOST, Set("a"), None)),
    ),
    (
        "a refused write has changed nothing",
        NO,
        history(CONFIG, (0, 1, Set("a"), Refused("no")), (2, 3, Get(), Value("a"))),
    ),
    (
        "a topic is created twice",
        NO,
        history(TOPIC, (0, 1, Create(), Created("x")), (2, 3, Create(), Created("y"))),
    ),
    (
        "unless it was deleted in between, which nobody was told",
        YES,
        history(
            TOPIC,
            (0, 1, Create(), Created("x")),
            (1, LOST, Delete(), None),
            (2, 3, Create(), Created("y")),
        ),
    ),
    (
        "a creation that timed out is found by the one who tries again",
        YES,
        history(
            TOPIC,
            (0, LOST, Create(), None),
            (2, 3, Create(), Exists(None)),
            (4, 5, Describe(), Exists("x")),
            (6, 7, Describe(), Exists("x")),
        ),
    ),
    (
        "a topic has one id",
        NO,
        history(
            TOPIC,
            (0, LOST, Create(), None),
            (4, 5, Describe(), Exists("x")),
            (6, 7, Describe(), Exists("y")),
        ),
    ),
    (
        "of two who delete one topic, one is too late",
        YES,
        history(
            TOPIC,
            (0, 1, Create(), Created("x")),
            (2, 9, Delete(), Deleted()),
            (3, 8, Delete(), Absent()),
        ),
    ),
    (
        "both have deleted it",
        NO,
        history(
            TOPIC,
            (0, 1, Create(), Created("x")),
            (2, 9, Delete(), Deleted()),
            (3, 8, Delete(), Deleted()),
        ),
    ),
    (
        "a move is listed until it is over, and not again",
        NO,
        history(
            PARTITION,
            (0, 1, Reassign((1, 2)), Accepted()),
            (2, 3, List(), UnderWay((1, 2))),
            (4, 5, List(), NothingUnderWay()),
            (6, 7, List(), UnderWay((1, 2))),
        ),
    ),
    (
        "a move is over before it is cancelled",
        YES,
        history(
            PARTITION,
            (0, 1, Reassign((1, 2)), Accepted()),
            (2, 3, Cancel(), NothingUnderWay()),
            (4, 5, List(), NothingUnderWay()),
        ),
    ),
    (
        "the later of two moves is the one under way",
        NO,
        history(
            PARTITION,
            (0, 1, Reassign((1, 2)), Accepted()),
            (2, 3, Reassign((3, 4)), Accepted()),
            (4, 5, List(), UnderWay((1, 2))),
        ),
    ),
    (
        "what was cancelled goes on",
        NO,
        history(
            PARTITION,
            (0, 1, Reassign((1, 2)), Accepted()),
            (2, 3, Cancel(), Cancelled((1, 3))),
            (4, 5, List(), UnderWay((1, 2))),
        ),
    ),
    (
        "a cancel that timed out has ended the move, or the move itself has",
        YES,
        history(
            PARTITION,
            (0, 1, Reassign((1, 2)), Accepted()),
            (2, LOST, Cancel(), None),
            (4, 5, List(), UnderWay((1, 2))),
            (6, 7, List(), NothingUnderWay()),
        ),
    ),
    (
        "one cancel ends one move",
        NO,
        history(
            PARTITION,
            (0, 1, Reassign((1, 2)), Accepted()),
            (2, 3, Cancel(), Cancelled((1, 3))),
            (4, 5, Cancel(), Cancelled((1, 3))),
        ),
    ),
    (
        "a move to where the partition is begins nothing",
        NO,
        history(
            PARTITION,
            (0, 1, Reassign((1, 2)), Accepted()),
            (2, 3, Cancel(), Cancelled((1, 3))),
            (4, 5, Reassign((1, 3)), Accepted()),
            (6, 7, List(), UnderWay((1, 3))),
        ),
    ),
    (
        "a move is paused, and runs again when that is asked for",
        YES,
        history(
            MOVE,
            (0, 1, Pause(), Done()),
            (2, 9, Resume(), Done()),
            (3, 4, Look(), Moving("paused")),
            (5, 6, Look(), Moving("running")),
        ),
    ),
    (
        "a paused move runs by itself",
        NO,
        history(MOVE, (0, 1, Pause(), Done()), (2, 3, Look(), Moving("running"))),
    ),
    (
        "a paused move whose steps were under way ends all the same",
        YES,
        history(
            MOVE,
            (0, 1, Pause(), Done()),
            (2, 3, Look(), Moving("ended")),
            (4, 5, Resume(), Over()),
        ),
    ),
    (
        "a move that has ended is paused",
        NO,
        history(MOVE, (2, 3, Look(), Moving("ended")), (4, 5, Pause(), Done())),
    ),
]
