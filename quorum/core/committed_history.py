"""The error of a node whose committed records its leader does not have.

It stays interpreted: mypyc compiles no subclass of `AssertionError`.
"""


class CommittedHistoryLost(AssertionError):
    """The leader's log lacks records that are known here as committed: the node must end.

    No leader of one history can lack them. An operator has begun another one, from a backup or from
    what a minority had.
    """
