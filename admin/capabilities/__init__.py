"""The capabilities of a cluster: each one typed request, its answer and its handler."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from admin.capabilities import brokers, moves, plans, quorum, reassignments
from admin.capabilities.schema import Request

CAPABILITIES: Final[Mapping[str, type[Request[Any]]]] = MappingProxyType(
    {
        kind.NAME: kind
        for kind in (
            brokers.ListBrokers,
            brokers.DescribeBroker,
            brokers.CordonBrokers,
            brokers.UncordonBrokers,
            brokers.UnregisterBrokers,
            brokers.SafeToStop,
            reassignments.BeginMove,
            reassignments.ListReassignments,
            moves.ListMoves,
            moves.DescribeMove,
            moves.DescribeMovePartitions,
            moves.DescribeMovePlan,
            moves.PauseMoves,
            moves.ResumeMoves,
            moves.CancelMoves,
            moves.RollBackMove,
            moves.AlterMove,
            plans.GeneratePlan,
            plans.ChangeReplicationFactor,
            plans.DecommissionBrokers,
            plans.RecommissionBrokers,
            quorum.DescribeQuorum,
            quorum.DescribeVoters,
            quorum.DescribeNodes,
            quorum.AlterVoters,
            quorum.TransferLead,
        )
    }
)
"""Every capability by its name."""
