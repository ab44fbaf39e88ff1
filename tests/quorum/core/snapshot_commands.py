"""The commands of transcripts about snapshots: those of `voter_commands`, and these.

snapshot 1             node 1 takes a snapshot of everything that it knows to be committed
install 3              node 3 installs the received snapshot in place of its log
install 3 damaged      the snapshot that node 3 received is damaged
"""

from collections.abc import Callable, Iterator

from tests.quorum.core.simulated_quorum import SNAPSHOT_BYTES
from tests.quorum.core.voter_commands import VotersStage


class SnapshotsStage(VotersStage):
    def _scenes(self) -> dict[str, Callable[..., Iterator[str]]]:
        return super()._scenes() | {"snapshot": self._snapshot, "install": self._install}

    def _snapshot(self, number: str) -> Iterator[str]:
        host = self._host(number)
        event = host.took_snapshot(SNAPSHOT_BYTES)
        yield f"{host.me}: {event}"
        yield from self._step(host, event)
