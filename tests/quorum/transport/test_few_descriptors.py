"""A listener in a process that may have few file descriptors, as with `ulimit -n 96`."""

import asyncio
import sys
from contextlib import AsyncExitStack

from quorum.protocol.apis import ApiKey
from quorum.protocol.headers import write_request_header
from tests.quorum.transport.loopback import framed, peer_of
from tests.support.tree import ROOT

LISTENER = """
import asyncio, resource, sys, tempfile
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
from quorum.clocks import monotonic_ms
from quorum.protocol.api_versions import write_offer
from quorum.protocol.apis import ApiKey, VersionRange
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
    print(await server.listen("127.0.0.1", 0), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_idle_connections_leave_descriptors_to_files_and_to_others() -> None:
    """1,100 idle connections at a limit of 1,024 kept everybody out, and files from opening."""
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            LISTENER,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        try:
            assert child.stdout is not None
            port = int(await child.stdout.readline())
            idle = [await stack.enter_async_context(peer_of(port)) for _ in range(300)]
            for n in range(10):
                peer = await stack.enter_async_context(peer_of(port))
                peer.write(framed(write_request_header(ApiKey.API_VERSIONS, 0, n, "x")))
                assert (await peer.take_frame())[:4] == n.to_bytes(4, "big")
            assert sum(not each.lost.done() for each in idle) < 96
        finally:
            child.kill()
            await child.wait()
