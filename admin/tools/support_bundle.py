"""One archive for a bug report: versions, settings, logs, quorum state, health, metrics.

Everything passes a `Scrubber` before it is written. What cannot be had is a sentence in the archive
and no failure: a bug report is made when something does not work. Keys, certificates, segments and
snapshots are never in it: the metadata log has the hashes of passwords.
"""

import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from admin.capabilities.brokers import ListBrokers
from admin.capabilities.features import DescribeFeatures
from admin.capabilities.health import DescribeHealth
from admin.capabilities.paging import every_page
from admin.capabilities.quorum import DescribeQuorum
from admin.capabilities.schema import json_of
from admin.capabilities.support import DescribeSupport, NodeSupport
from admin.client.admin_client import AdminClient
from admin.client.upgrade_facts import Connect, upgrade_facts
from admin.client.upgrade_rules import judge
from admin.config import from_file as settings_in
from admin.config import scrubber_of
from admin.faults import AdminError
from admin.monitoring.health_rules import reasons_of_folder
from admin.scrubber import Scrubber
from admin.settings import InvalidSetting
from admin.tools.doctor import folder_facts
from admin.tools.local_plan import CLUSTER_FILE, LOG_FILE, PLAN_FILE
from admin.units import show_time
from quorum.clocks import wall_ms
from quorum.log.meta_properties import BOOT_FILE_NAME
from quorum.log.meta_properties import FILE_NAME as META_FILE
from quorum.log.quorum_state import FILE_NAME as QUORUM_STATE_FILE
from quorum.persistent_state import LOG_FOLDER
from quorum.transport.address import parse_address
from quorum.transport.security.secret import HIDDEN
from quorum.version import SOFTWARE_NAME, VERSION

FORMAT: Final = 1
"""The format of the archive, in `bundle.json`."""
LOG_BYTES_MAX: Final = 4 * 1024 * 1024
"""The end of each log file."""
BUNDLE_BYTES_MAX: Final = 256 * 1024 * 1024
"""All texts together, before they are compressed."""
LISTED_FILES_MAX: Final = 10_000
_SETTINGS_SUFFIXES: Final = (".properties", ".toml")
_STATE_FILES: Final = (META_FILE, BOOT_FILE_NAME, f"{LOG_FOLDER}/{QUORUM_STATE_FILE}")


class BundleError(Exception):
    """No bundle can be made; the message names the reason, and what to do."""


@dataclass(slots=True)
class Bundle:
    """The texts of an archive by their names, scrubbed."""

    scrubber: Scrubber = field(default_factory=Scrubber)
    files: dict[str, bytes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """What could not be had, a sentence each."""
    _left: int = BUNDLE_BYTES_MAX

    def add(self, name: str, text: str, scrubber: Scrubber | None = None) -> None:
        """Add a text; `scrubber` knows further secrets that may be in it."""
        if scrubber is not None:
            text = scrubber.scrub(text)
        data = self.scrubber.scrub(text).encode(errors="replace")
        if len(data) > self._left:
            self.missing.append(f"{name} was left out: the archive would be too large")
            return
        self._left -= len(data)
        self.files[name] = data

    def add_json(self, name: str, value: Any, scrubber: Scrubber | None = None) -> None:
        """Add a value as JSON."""
        data = json_of(value) if isinstance(value, Struct) else value
        self.add(name, json.dumps(data, indent=2, default=str) + "\n", scrubber)

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Note an expected error as missing, and go on."""
        try:
            yield
        except (AdminError, InvalidSetting, OSError, ValueError) as error:
            self.missing.append(self.scrubber.scrub(f"{what}: {error}"))

    def write(self, path: Path, source: str) -> None:
        """Write the archive, for its owner only; raises `OSError`."""
        about = {
            "format": FORMAT,
            "made_by": f"{SOFTWARE_NAME} {VERSION}",
            "time": show_time(wall_ms()),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "source": source,
            "missing": self.missing,
        }
        self.files["bundle.json"] = self.scrubber.scrub(json.dumps(about, indent=2)).encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        root = path.name.partition(".")[0]
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, data in sorted(self.files.items()):
                entry = tarfile.TarInfo(f"{root}/{name}")
                entry.size, entry.mode, entry.mtime = len(data), 0o600, wall_ms() // 1_000
                archive.addfile(entry, io.BytesIO(data))


# --- a running cluster ---------------------------------------------------------------------------


async def add_cluster(bundle: Bundle, client: AdminClient, connect: Connect) -> None:
    """Add what a running cluster says of itself, and each controller of itself."""
    asked: Mapping[str, Callable[[], Awaitable[object]]] = {
        "health": lambda: client.ask(DescribeHealth()),
        "quorum": lambda: client.ask(DescribeQuorum()),
        "features": lambda: client.ask(DescribeFeatures()),
        "brokers": lambda: every_page(client.ask, ListBrokers()),
        "nodes": client.discover_brokers,
    }
    for name, ask in asked.items():
        with bundle.trying(name):
            bundle.add_json(f"cluster/{name}.json", await ask())
    with bundle.trying("versions"):
        report = judge(await upgrade_facts(client, connect, None))
        bundle.add_json("cluster/versions.json", report)
        for node in report.nodes:
            if node.role == "controller" and node.problem is None and not node.of_kafka:
                await _add_node(bundle, node.id, node.address, connect)


async def _add_node(bundle: Bundle, node_id: int, address: str, connect: Connect) -> None:
    with bundle.trying(f"controller {node_id}"):
        async with connect(parse_address(address), True) as client:
            found = await client.ask(DescribeSupport())
        _add_support(bundle, found)


def _add_support(bundle: Bundle, found: NodeSupport) -> None:
    folder = f"nodes/controller-{found.node_id}"
    settings = "".join(f"{name}={value}\n" for name, value in sorted(found.settings.items()))
    bundle.add(f"{folder}/settings.properties", settings)
    bundle.add(f"{folder}/recent.log", "\n".join([*found.log, ""]))
    bundle.add(f"{folder}/metrics.txt", found.metrics)
    bundle.add_json(f"{folder}/quorum.json", found.quorum)
    bundle.add_json(
        f"{folder}/node.json",
        {
            "node_id": found.node_id,
            "version": found.version,
            "python": found.python,
            "platform": found.platform,
            "levels": found.levels,
        },
    )


# --- folders -------------------------------------------------------------------------------------


def add_folder(bundle: Bundle, folder: Path) -> None:
    """Add the folder of a local cluster or of a node, running or not; raises `BundleError`."""
    if (folder / PLAN_FILE).is_file():
        for name in (PLAN_FILE, CLUSTER_FILE):
            if (folder / name).is_file():
                with bundle.trying(name):
                    bundle.add(name, (folder / name).read_text(encoding="utf-8"))
        for home in sorted(each for each in folder.iterdir() if each.is_dir()):
            if (home / LOG_FILE).is_file() or (home / "data").is_dir():
                _add_home(bundle, home, f"nodes/{home.name}")
    elif (folder / META_FILE).is_file() or (folder / "data" / META_FILE).is_file():
        _add_home(bundle, folder, f"nodes/{folder.absolute().name}")
    else:
        raise BundleError(
            f"{folder} is neither the folder of a local cluster, which has {PLAN_FILE}, nor that "
            f"of a node, which has {META_FILE}: name the --dir of `metaquorum local`, or the "
            "log.dir of a node"
        )


def _add_home(bundle: Bundle, home: Path, name: str) -> None:
    """Add a node by its folder, which is its data folder or has that in it, beside its files."""
    data = home / "data" if (home / "data").is_dir() else home
    scrubber = Scrubber()
    for path in _settings_files(home):
        with bundle.trying(str(path)):
            scrubber = add_settings(bundle, path, f"{name}/{path.name}")
    log = home / LOG_FILE
    if log.is_file():
        with bundle.trying(str(log)):
            bundle.add(f"{name}/{LOG_FILE}", end_of_file(log, LOG_BYTES_MAX), scrubber)
    for state in _STATE_FILES:
        path = data / state
        if path.is_file():
            with bundle.trying(str(path)):
                bundle.add(f"{name}/{path.name}", path.read_text(encoding="utf-8"))
    with bundle.trying(str(data)):
        bundle.add(f"{name}/files.txt", "".join(_listed(data)))
    with bundle.trying(f"the health of {data}"):
        reasons = [*reasons_of_folder(folder_facts(data))]
        bundle.add_json(f"{name}/doctor.json", [json_of(each) for each in reasons], scrubber)


def _settings_files(home: Path) -> list[Path]:
    """Return the files of settings in a folder; `meta.properties` is none."""
    return [
        each
        for each in sorted(home.iterdir())
        if each.suffix in _SETTINGS_SUFFIXES and each.name != META_FILE and each.is_file()
    ]


def add_settings(bundle: Bundle, path: Path, name: str) -> Scrubber:
    """Add a file of settings without its secrets; return a scrubber that knows these.

    A setting that is not known is hidden as well: it may be a misspelt password. Raises
    `InvalidSetting` for a file that cannot be read.
    """
    given = {}
    shown = []
    try:
        for one in settings_in(path):
            given[one.setting.name] = one
            is_secret = one.setting.kind.is_secret
            shown.append(f"{one.setting.name}={HIDDEN if is_secret else one.text}")
    except InvalidSetting as error:
        # Not its text, which may be the secret: the file is left out, and its secrets with it.
        raise InvalidSetting(f"{path} was left out: {_without_quotes(str(error))}") from None
    scrubber = scrubber_of(given)
    bundle.add(name, "\n".join([*shown, ""]), scrubber)
    return scrubber


def _without_quotes(text: str) -> str:
    """Return an error about a file without what it quotes from it."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", HIDDEN, text)


def end_of_file(path: Path, bytes_max: int) -> str:
    """Return the last part of a text file, from the beginning of a line on."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - bytes_max))
        text = file.read().decode(errors="replace")
    return text if size <= bytes_max else text.partition("\n")[2]


def _listed(folder: Path) -> Iterable[str]:
    """Yield the files of a folder with their sizes and times."""
    for number, path in enumerate(sorted(folder.rglob("*"))):
        if number >= LISTED_FILES_MAX:
            yield f"... at most {LISTED_FILES_MAX} are listed\n"
            return
        found = path.stat()
        at = show_time(found.st_mtime_ns // 1_000_000)
        kind = "d" if path.is_dir() else "-"
        name = path.relative_to(folder)
        yield f"{kind} {found.st_mode & 0o777:o} {found.st_size:>12} {at} {name}\n"


def add_folders(bundle: Bundle, folders: Sequence[Path]) -> None:
    """Add each of these folders."""
    for each in folders:
        add_folder(bundle, each)
