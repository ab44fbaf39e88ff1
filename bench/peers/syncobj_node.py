"""One node of PySyncObj, run by a Python with that library; commands arrive on a control port.

PySyncObj is a library, so its clients are in the processes of nodes. The leader's process therefore
generates the load, with the requested number of outstanding changes. The journal is on disk, as the
library's documentation recommends for durable data; all other settings have their defaults.
"""

import json
import socketserver
import sys
import threading
from time import perf_counter

from pysyncobj import SyncObj, SyncObjConf, replicated  # type: ignore[import-not-found]

WARM_UP_SECONDS = 1.0
PAUSE = threading.Event()
"""Never set; a wait for it is a pause."""


class Store(SyncObj):  # type: ignore[misc]
    """A map from text to text."""

    def __init__(self, me: str, others: list[str], journal: str) -> None:
        super().__init__(me, others, SyncObjConf(journalFile=journal))
        self._values: dict[str, str] = {}

    @replicated  # type: ignore[untyped-decorator]
    def put(self, key: str, value: str) -> int:
        """Store a value; return the number of stored values."""
        self._values[key] = value
        return len(self._values)


class Load:
    """A constant number of outstanding changes: each completed one triggers the next."""

    def __init__(self, store: Store, outstanding: int) -> None:
        self._store = store
        self._outstanding = outstanding
        self._running = True
        self._latencies: list[float] | None = None
        self._failures: list[str] = []

    def run(self, seconds: float) -> dict[str, object]:
        """Warm up, measure, and return the results."""
        for number in range(self._outstanding):
            self._ask(number)
        PAUSE.wait(WARM_UP_SECONDS)
        latencies: list[float] = []
        self._latencies = latencies
        begun = perf_counter()
        PAUSE.wait(seconds)
        self._latencies = None
        passed = perf_counter() - begun
        self._running = False
        return {"latencies": latencies, "seconds": passed, "failures": self._failures[:3]}

    def _ask(self, number: int) -> None:
        asked_at = perf_counter()

        def done(_: object, error: int) -> None:
            if error:
                self._failures.append(f"put {number} failed with {error}")
            elif self._latencies is not None:
                self._latencies.append(perf_counter() - asked_at)
            if self._running:
                self._ask(number)

        self._store.put(f"put-{number}", "x" * 64, callback=done)


def main(me: str, others: list[str], journal: str, control: int) -> None:
    """Run until killed."""
    store = Store(me, others, journal)

    class Control(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            order, *words = self.rfile.readline().decode().split()
            if order == "leader":
                leader = store._getLeader()
                answer: dict[str, object] = {"leader": None if leader is None else str(leader)}
            else:
                answer = Load(store, int(words[0])).run(float(words[1]))
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", control), Control) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3], int(sys.argv[4]))
