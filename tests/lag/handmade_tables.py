"""Handmade logs as tables of the source; unspecified columns are null."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lag.reports.logs import Logs
from lag.source.schemas import TABLES

Made = dict[str, list[dict[str, Any]]]


@dataclass
class MadeTables:
    """Rows of the tables; `logs` makes them DataFrames."""

    rows: Made = field(default_factory=lambda: {name: [] for name in TABLES})

    snapshots: dict[str, None] = field(default_factory=dict)
    """The snapshots of replica 1 by their names."""

    def epoch(self, epoch: int, leader: int, start: int, at_ms: int, held: Sequence[int]) -> None:
        """A leader is elected; its record is no batch of its own here."""
        for replica in held:
            self.rows["epochs"].append(
                {
                    "replica": str(replica),
                    "epoch": epoch,
                    "start_offset": start,
                    "leader": leader,
                    "append_ms": at_ms,
                    "voters": [1, 2, 3],
                }
            )

    def batch(
        self, offset: int, at_ms: int, came: Mapping[int, int | None], *, epoch: int = 1, n: int = 1
    ) -> None:
        """A batch of `n` records that the leader appended at `at_ms`, and when it came to whom."""
        for replica, here_ms in came.items():
            self.rows["batches"].append(
                {
                    "replica": str(replica),
                    "base_offset": offset,
                    "last_offset": offset + n - 1,
                    "epoch": epoch,
                    "leader_append_ms": at_ms,
                    "local_append_ms": here_ms,
                    "bytes": 100 * n,
                    "records": n,
                    "control": False,
                    "codec": "none",
                    "source": "log",
                }
            )

    def record(self, offset: int, at_ms: int, type_: str, *, epoch: int = 1, **said: Any) -> None:
        """A record, in the log of replica 1."""
        known = {"offset": offset, "append_ms": at_ms, "type": type_, "epoch": epoch}
        self.rows["records"].append({"replica": "1", "source": "log", **known, **said})

    def state(self, snapshot: str, type_: str, **said: Any) -> None:
        """A record in a snapshot of replica 1, behind those that are there."""
        path = f"/logs/1/{snapshot}"
        place = sum(row.get("path") == path for row in self.rows["records"])
        known = {"offset": place, "append_ms": 9_999, "type": type_, "epoch": 1, "path": path}
        self.rows["records"].append({"replica": "1", "source": "snapshot", **known, **said})
        self.snapshots |= {snapshot: None}

    def voters(self, offset: int, at_ms: int, *current: str, epoch: int = 1) -> None:
        """A voter assignment, in the log of replica 1."""
        said = {"offset": offset, "append_ms": at_ms, "epoch": epoch, "current": list(current)}
        self.rows["assignments"].append({"replica": "1", "source": "log", "kind": "change", **said})

    def replicas(self) -> None:
        """The folders that hold the batches there are."""
        batches = self.rows["batches"]
        for name in sorted({row["replica"] for row in batches}):
            own = [row for row in batches if row["replica"] == name]
            self.rows["replicas"].append(
                {
                    "replica": name,
                    "path": f"/logs/{name}",
                    "node_id": int(name),
                    "log_start": min(row["base_offset"] for row in own),
                    "log_end": max(row["last_offset"] for row in own) + 1,
                    "last_epoch": max(row["epoch"] for row in own),
                    "snapshots": sorted(self.snapshots) if name == "1" else [],
                    "has_append_times": any(row["local_append_ms"] is not None for row in own),
                }
            )

    def logs(self, spark: Any) -> Logs:
        """The input of the reports."""
        if not self.rows["replicas"]:
            self.replicas()
        tables = {
            name: spark.createDataFrame(
                pa.Table.from_pylist(self.rows[name], schema=TABLES[name].nullable().arrow())
            )
            for name in ("batches", "records", "epochs", "assignments", "replicas")
        }
        return Logs(**tables)
