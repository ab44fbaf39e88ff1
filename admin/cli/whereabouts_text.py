"""How it is shown where the nodes are: as a table, and as plain values. Nothing here asks."""

from datetime import UTC, datetime
from typing import Any, Final

from admin.cli.tables import columns
from admin.whereabouts import NodePlace, Whereabouts
from quorum.core.vocabulary import NO_DIRECTORY
from quorum.log.uuids import uuid_to_text

_TITLES: Final = ("NodeId", "Address", "Booted", "DirectoryId", "Status")


def table(found: Whereabouts) -> str:
    """A line for each node that the one asked has heard of."""
    rows = [
        (
            node.id,
            node.address,
            _booted(node),
            "-" if node.directory_id == NO_DIRECTORY else uuid_to_text(node.directory_id),
            "Leader" if node.id == found.leader_id else "",
        )
        for node in found.nodes
    ]
    return columns(_TITLES, rows)


def data(found: Whereabouts) -> dict[str, Any]:
    """The same as plain values; -1 stands for a leader that is not known."""
    return {
        "cluster_id": found.cluster_id,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "nodes": [
            {
                "node_id": node.id,
                "host": node.address.host,
                "port": node.address.port,
                "boot_timestamp_ms": node.boot_timestamp_ms,
                "directory_id": uuid_to_text(node.directory_id),
            }
            for node in found.nodes
        ],
    }


def _booted(node: NodePlace) -> str:
    try:
        return datetime.fromtimestamp(node.boot_timestamp_ms / 1_000, UTC).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        # A timestamp beyond all calendars is one all the same.
        return str(node.boot_timestamp_ms)
