"""A listener in a process that may have few file descriptors, as with `ulimit -n 96`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from quorum.protocol.apis import ApiKey
from quorum.protocol.headers import write_request_header
from tests.quorum.transport.loopback import framed, peer_of
from tests.support.pem_authority import Authority
from tests.support.tree import ROOT

LISTENER = """
import asyncio, pathlib, resource, sys, tempfile
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
from quorum.clocks import monotonic_ms
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import ApiKey, VersionRange
from quorum.transport.security.protocols import (
    UNPROTECTED, ListenerSecurity, SecurityProtocol
)
from quorum.transport.security.tls import Pem, ServerTls, TlsSettings
from quorum.transport.server import Server

OFFERED = {ApiKey.API_VERSIONS: VersionRange(0, 4)}

def handle(request):
    # Whoever serves has to open files.
    files = [tempfile.TemporaryFile() for _ in range(16)]
    request.respond(write_offer(request.api_version, OFFERED))
    for each in files:
        each.close()

async def main():
    server = Server(handle, offered=OFFERED, name="few", clock_ms=monotonic_ms)
    security = UNPROTECTED
    if len(sys.argv) > 1:
        chain = Pem("ssl.keystore.location", pathlib.Path(sys.argv[1]))
        tls = ServerTls(TlsSettings(chain=chain))
        security = ListenerSecurity(name="SECURE", protocol=SecurityProtocol.SSL, tls=tls)
    print(await server.listen("127.0.0.1", 0, security), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def listener(*arguments: Path) -> AsyncIterator[tuple[int, int]]:
    """The listener in a process of its own: the process id, and the port."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LISTENER, *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert child.stdout is not None
        yield child.pid, int(await child.stdout.readline())
    finally:
        child.kill()
        await child.wait()


async def test_idle_connections_leave_descriptors_to_files_and_to_others() -> None:
    """1,100 idle connections at a limit of 1,024 kept everybody out, and files from opening."""
    async with AsyncExitStack() as stack, asyncio.timeout(60), listener() as (_, port):
        idle = [await stack.enter_async_context(peer_of(port)) for _ in range(300)]
        for n in range(10):
            peer = await stack.enter_async_context(peer_of(port))
            peer.write(framed(write_request_header(ApiKey.API_VERSIONS, 0, n, "x")))
            assert (await peer.take_frame())[:4] == n.to_bytes(4, "big")
        assert sum(not each.lost.done() for each in idle) < 96


async def test_tls_handshakes_that_never_end_leave_descriptors_free(tmp_path: Path) -> None:
    files = Authority().files(tmp_path, "server")
    async with (
        AsyncExitStack() as stack,
        asyncio.timeout(60),
        listener(files.keystore) as (pid, port),
    ):
        silent = [await stack.enter_async_context(peer_of(port)) for _ in range(80)]
        await asyncio.wait([each.lost for each in silent[70:]])
        assert len(os.listdir(f"/proc/{pid}/fd")) <= 96 // 2 + 1
