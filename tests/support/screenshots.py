"""The pictures of the live page in the documentation: `python -m tests.support.screenshots docs`.

A cluster of its own runs a throttled move with real data, in a temporary folder.
"""

import asyncio
import random
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

from admin.client.admin_client import AdminClient
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import Wanted, settle
from tests.support.browser import Browser, browsing, call

PNG: Final = b"\x89PNG\r\n\x1a\n"
TOPICS: Final = ("clicks", "customers", "orders", "payments")
PARTITIONS: Final = 24
RECORDS: Final = 200_000
THROTTLE_BYTES_PER_S: Final = 20_000
"""So slow that the move is under way while the pictures are taken."""
PICTURES: Final = (
    ("live-page.png", (1280, 860), False),
    ("live-page-dark.png", (1280, 860), True),
    ("live-page-narrow.png", (390, 844), False),
)
"""Name, size, and whether it is dark."""


async def take(folder: Path) -> None:
    """Write the pictures into `folder`."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        wanted = Wanted(controllers=3, brokers=5, base_port=0)
        plan = settle(home / "cluster", wanted, random.Random())
        async with LocalCluster(home / "cluster", plan) as cluster:
            async with AdminClient(cluster.brokers, is_controller=False) as admin:
                for topic in TOPICS:
                    await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
            await asyncio.to_thread(produce, ",".join(map(str, cluster.brokers)))
            web = f"http://{plan.controllers[0].http}"
            await asyncio.to_thread(begin_move, web, [each.id for each in plan.brokers[:3]])
            async with browsing(home) as browser:
                await pictures(browser, web, folder)


async def pictures(browser: Browser, web: str, folder: Path) -> None:
    """Open the page, and take it in both schemes and sizes."""
    await browser.resize(*PICTURES[0][1])
    await browser.open(web)
    await browser.until_text("#connection", "Live")
    # The sparklines have a few samples then, and brokers have reported their rates.
    await browser.until("return document.querySelector('.facts').innerText", wanted=has_rate)
    await browser.until("return document.querySelector('.spark path + path').getTotalLength() > 60")
    for name, size, is_dark in PICTURES:
        await browser.resize(*size, is_dark=is_dark)
        await browser.screenshot(folder / name)
        await asyncio.to_thread(compress, folder / name)


def compress(path: Path) -> None:
    """Compress the pixels of a PNG as far as they go: the browser does it fast."""
    data = path.read_bytes()
    at, pixels, others = len(PNG), b"", []
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += size + 12
        if kind == b"IDAT":
            pixels += body
        else:
            others.append((kind, body))
    packed = zlib.compress(zlib.decompress(pixels), 9)
    chunks = [*others[:-1], (b"IDAT", packed), others[-1]]
    path.write_bytes(PNG + b"".join(png_chunk(kind, body) for kind, body in chunks))


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk of a PNG."""
    checksum = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)


def has_rate(facts: str) -> bool:
    return "/s" in facts.partition("Rate")[2].partition("Throttle")[0]


def produce(servers: str) -> None:
    """Write records into the topic that is moved."""
    lines = "".join(f"order {number}\n" for number in range(RECORDS))
    command = [sys.executable, "-m", "admin.cli.main", "produce", "orders"]
    subprocess.run(
        [*command, "--bootstrap-server", servers],
        input=lines,
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def begin_move(web: str, brokers: list[int]) -> Any:
    """Begin a slow move of the topic onto these brokers."""
    base = f"{web}/v1/reassignments"
    found = call("POST", f"{base}:generate", {"topics": ["orders"], "brokers": brokers})
    options = {"name": "orders to three brokers", "throttle_bytes_per_s": THROTTLE_BYTES_PER_S}
    return call("POST", base, {**found["plan"], **options})


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1])))
