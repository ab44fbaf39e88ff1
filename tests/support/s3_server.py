"""A local server that speaks S3: moto, as a process on loopback."""

import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

MOTO: Final = shutil.which("moto_server")
HOST: Final = "127.0.0.1"
NEEDS_MOTO: Final = pytest.mark.skipif(
    MOTO is None, reason="moto_server (pip install 'moto[server]') is absent"
)
CREDENTIALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
)


class S3Server:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.address = f"{HOST}:{port}"

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which clients find the server and are let in."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://{self.address}"}

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket, unless it is there."""
        self._files().create_dir(name)

    def put(self, key: str, content: bytes) -> None:
        """Write an object; `key` begins with the bucket."""
        with self._files().open_output_stream(key) as stream:
            stream.write(content)

    def put_folder(self, key: str, folder: Path) -> None:
        """Write all files below a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{key}/{path.relative_to(folder)}", path.read_bytes())

    def empty(self, key: str) -> None:
        """Remove all objects whose keys begin with this folder."""
        self._files().delete_dir_contents(key)

    def _files(self) -> Any:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            access_key=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=self.address,
            scheme="http",
            region=CREDENTIALS["AWS_DEFAULT_REGION"],
            allow_bucket_creation=True,
            # moto takes an object in one request.
            allow_delayed_open=True,
        )

    @contextmanager
    def strict(self) -> Iterator[None]:
        """Refuse all credentials for the duration of the block, since no user was made."""
        self._allow_unchecked("0")
        try:
            yield
        finally:
            self._allow_unchecked("inf")

    def _allow_unchecked(self, requests: str) -> None:
        asked = urllib.request.Request(
            f"http://{self.address}/moto-api/reset-auth",
            method="POST",
            data=requests.encode(),
            headers={"Content-Type": "text/plain"},
        )
        urllib.request.urlopen(asked, timeout=30).close()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start a server, and end it afterwards."""
    assert MOTO is not None
    port = free_port()
    with subprocess.Popen(
        [MOTO, "-H", HOST, "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        assert server.stderr is not None
        # It writes a line for each request, and waits if nobody reads them.
        log = threading.Thread(target=server.stderr.read, name="moto's log")
        try:
            assert any("Running on" in line for line in server.stderr)
            log.start()
            yield S3Server(port)
        finally:
            server.kill()
            if log.is_alive():
                log.join()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
