"""A proxy before a node that loses answers: requests of one kind arrive, and nobody hears of it.

It runs in threads, so that a command which is a process of its own can be waited for meanwhile.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from struct import Struct
from typing import Final

_PREFIX: Final = Struct(">ih")
"""Length and api key."""
_CHUNK_BYTES: Final = 64 * 1024


class LossyProxy:
    """Passes everything on until a request of this api has: from then on no answer gets through."""

    def __init__(self, server: str, api_key: int) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._api_key = api_key
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.has_lost = threading.Event()
        """Set once such a request was passed on."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Take connections until it is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                _begin(self._requests, client, server)
                _begin(self._answers, server, client)

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while prefix := client.recv(_PREFIX.size, socket.MSG_WAITALL):
                length, api_key = _PREFIX.unpack(prefix)
                if api_key == self._api_key:
                    self.has_lost.set()
                rest = client.recv(length + 4 - _PREFIX.size, socket.MSG_WAITALL)
                server.sendall(prefix + rest)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(_CHUNK_BYTES):
                if not self.has_lost.is_set():
                    client.sendall(data)


def _begin(carry: object, source: socket.socket, target: socket.socket) -> None:
    assert callable(carry)
    threading.Thread(target=carry, args=(source, target), daemon=True).start()


@contextmanager
def lossy_proxy(server: str, api_key: int) -> Iterator[LossyProxy]:
    """One before this server."""
    proxy = LossyProxy(server, api_key)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
