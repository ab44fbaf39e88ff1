"""The stage for stories with snapshots: the commands of `voters_stage`, and these.

snapshot 1             node 1 writes all that it knows to be committed into a snapshot
install 3              what node 3 has received takes the place of its log
install 3 damaged      what node 3 has received proves to be damaged
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
