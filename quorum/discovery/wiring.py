"""The cluster's id and the gossip of one replica, with the files of the folder behind them;
`quorum.bootstrap` calls it.
"""

import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

from quorum.cluster_id import ClusterIdentity
from quorum.core.events import DiscoveryDone, EndpointsUpdated
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint
from quorum.discovery.address_book import AddressBook
from quorum.discovery.gossip import Advertisement
from quorum.discovery.schedule import DiscoverySchedule
from quorum.log.errors import FolderUnusable
from quorum.log.filesystem import OS, FileSystem, is_full
from quorum.log.meta_properties import load_or_create, raise_boot
from quorum.log.quorum_state import QuorumStateFile
from quorum.ports import Clock, Disk, DiskFull

logger = logging.getLogger("quorum")


def cluster_of(
    cluster_id: str | None,
    *,
    me: ReplicaKey,
    folder: Path,
    elections: QuorumStateFile,
    disk: Disk,
    rng: random.Random,
    fs: FileSystem = OS,
) -> ClusterIdentity:
    """The cluster's id, kept in `meta.properties` before it is told; `rng` may make one."""

    def write(learned: str) -> None:
        try:
            load_or_create(folder, learned, me.id, rng=rng, fs=fs)
        except FolderUnusable as error:
            if isinstance(error.__cause__, OSError) and is_full(error.__cause__):
                raise DiskFull(str(error)) from error
            raise
        elections.cluster_id = learned

    def keep(learned: str, done: Callable[[], None]) -> None:
        def kept(_: None) -> None:
            logger.info("this node is of cluster %s", learned)
            done()

        disk.perform(partial(write, learned), kept)

    return ClusterIdentity(
        cluster_id,
        keep=keep,
        make=lambda: uuid_to_text(UUID(int=rng.getrandbits(128), version=4)),
    )


def discovery_of(
    book: AddressBook,
    cluster: ClusterIdentity,
    node: QuorumNode,
    *,
    has_log: bool,
    tell: Callable[[EndpointsUpdated | DiscoveryDone], None],
    listener_name: str,
    folder: Path,
    disk: Disk,
    fs: FileSystem = OS,
    clock: Clock,
    rng: random.Random,
) -> DiscoverySchedule:
    """Return the discovery schedule of `node`; `has_log` if it began with a log."""

    def say_again(rival: Advertisement) -> None:
        boot = rival.boot_timestamp + 1
        logger.warning(
            "another node is taken for this one, by an earlier boot or because it has the same "
            "id: %s; from now on this node says where it is with boot timestamp %d",
            rival.text,
            boot,
        )
        disk.perform(partial(raise_boot, folder, boot, fs=fs), lambda _: discovery.said_again(boot))

    def locate(news: Sequence[Advertisement]) -> None:
        for each in news:
            tell(EndpointsUpdated(each.key, (Endpoint(listener_name, *each.address),)))

    def survey(found: bool) -> None:
        if found:
            logger.info("a quorum was found by asking: no other one is founded here")
        tell(DiscoveryDone(found))

    book.on_news = locate
    if book.gossip.me is not None:
        # A voter that has moved and is elected writes down its own new place as well.
        locate([book.gossip.me])
    discovery = DiscoverySchedule(
        book,
        cluster,
        node,
        has_log=has_log,
        surveyed=survey,
        say_again=say_again,
        rng=random.Random(rng.getrandbits(64)),
        now_ms=clock(),
    )
    return discovery
