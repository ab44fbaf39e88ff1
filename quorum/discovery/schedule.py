"""The schedule of DiscoverBrokers requests: whom to ask next, and what the answers change
(KIP-595).

At its start a node asks its bootstrap servers and everyone it knows of, and again, after growing
waits, until it knows of a leader and where every voter is; from then on it asks somebody now and
then. It needs no leader for that, nor a majority. Nothing here sends or waits: `round` says whom
to ask, and whoever asks reports back.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from quorum.cluster_id import ClusterIdentity
from quorum.core.node import QuorumNode
from quorum.discovery.address_book import AddressBook, HostPort
from quorum.discovery.gossip import Advertisement, DiscoverBrokersRequest, DiscoverBrokersResponse

ASKED_AT_ONCE_MAX: Final = 16
"""Places asked in one round; where there are more, chance decides."""

SEARCH_MS: Final = 100
SEARCH_MS_MAX: Final = 2_000
"""The wait between two rounds of a node that searches; it doubles."""

SURVEY_TRIES: Final = 3
"""The failed attempts after which a bootstrap server counts as knowing of no quorum."""

LED_BACK_MAX: Final = 32
"""The number of times that a bootstrap server turns out to be this node before it counts as another
name of it. Behind one address there may be several nodes: that of two the other one never answers,
by chance, is not to happen. Who founds alone and names itself waits for so many rounds."""

ADVERTISE_AGAIN_TRIES: Final = 8
"""The attempts to tell an address that this node has raised its boot timestamp."""

ROUTINE_MS: Final = 10_000
ROUTINE_MS_PER_NODE: Final = 20
"""The wait between two rounds of a node that misses nothing, and what every node it knows of adds
to it: an answer names them all."""

ADVERTISE_AGAIN_MS: Final = 10_000
"""The minimal interval between two raises of the boot timestamp: two nodes of one id would never
end."""


class DiscoverySchedule:
    """One node's part in the gossip; times are monotonic milliseconds."""

    def __init__(
        self,
        book: AddressBook,
        cluster: ClusterIdentity,
        node: QuorumNode,
        *,
        has_log: bool,
        surveyed: Callable[[bool], None],
        advertise_again: Callable[[Advertisement], None],
        rng: random.Random,
        now_ms: int,
    ) -> None:
        """`has_log` says that the log of `node` was begun before.

        `surveyed` is called once when every bootstrap server has been asked, and once if a quorum
        was found, with whether it was. `advertise_again` is called if somebody else is taken for this
        node: it must raise its boot timestamp above that one's, and report back as `advertised_again`.
        """
        self._book = book
        self._cluster = cluster
        self._node = node
        self._has_log = has_log
        self._surveyed = surveyed
        self._advertise_again = advertise_again
        self._rng = rng
        self.deadline_ms = now_ms
        """The time to ask for the next `round`, unless `is_due` says so before."""
        self._wait_ms = SEARCH_MS
        self._searched = True
        self._must_introduce = False
        self._asking: set[HostPort] = set()
        servers = {*book.places()} & {*book.bootstrap.values()}
        self._unsurveyed = dict.fromkeys(servers, SURVEY_TRIES)
        self._led_back = dict.fromkeys(servers, 0)
        self._has_surveyed = False
        self._has_found = False
        self._advertised_again_ms: int | None = None
        self._is_saying = False
        self._rival: Advertisement | None = None
        """The rival that others take for this node, not answered yet."""
        self._unconvinced: dict[HostPort, int] = {}
        """The addresses that may still believe a rival, with the remaining attempts."""
        self._convincing: set[HostPort] = set()
        """Those of them that are being asked with the current timestamp."""

    @property
    def is_searching(self) -> bool:
        """True if this node misses something that others may know."""
        book = self._book
        return self._node.leader is None or any(
            book.address_of(each.id) is None for each in book.voters()
        )

    def is_due(self, now_ms: int) -> bool:
        """Return True if to ask now: it is time, or something is missing that was not before."""
        if self._must_introduce and self._cluster.id is not None:
            return True
        return now_ms >= self.deadline_ms or (self.is_searching and not self._searched)

    def round(self, now_ms: int) -> tuple[HostPort, ...]:
        """Return the addresses to ask now; the caller reports each as `heard` or `failed`."""
        self._answer_rival(now_ms)
        places = self._book.places()
        tries = self._unconvinced
        self._unconvinced = {each: tries[each] for each in places if each in tries}
        searching = self.is_searching or bool(self._unsurveyed) or self._must_introduce
        searching = searching or bool(self._unconvinced)
        self._searched, self._must_introduce = searching, False
        if searching:
            wait_ms = self._wait_ms
            self._wait_ms = min(2 * wait_ms, SEARCH_MS_MAX)
        else:
            wait_ms = ROUTINE_MS + ROUTINE_MS_PER_NODE * len(self._book.gossip.advertisements)
            self._wait_ms = SEARCH_MS
        # Up to a fifth more or less, so that nodes that were started together do not ask together.
        self.deadline_ms = now_ms + max(1, round(wait_ms * self._rng.uniform(0.8, 1.2)))
        free = [each for each in places if each not in self._asking]
        chosen = self._chosen(free, ASKED_AT_ONCE_MAX if searching else 1)
        self._asking.update(chosen)
        self._convincing.update(each for each in chosen if each in self._unconvinced)
        self._survey_if_done()
        return chosen

    @property
    def cluster_id(self) -> str | None:
        return self._cluster.id

    def request(self) -> DiscoverBrokersRequest:
        """Return the request to send."""
        return DiscoverBrokersRequest(cluster_id=self._cluster.id, advertisement=self._book.gossip.me)

    def asked(self, request: DiscoverBrokersRequest, now_ms: int) -> DiscoverBrokersResponse | str:
        """The answer to somebody who asks, or why it is refused; what it says is learned first.

        No cluster is learned from who asks: whom a node is to join, it asks itself.
        """
        foreign = self._cluster.refusal(request.cluster_id)
        if foreign is not None:
            return foreign
        if request.advertisement is not None and self._cluster.agrees(request.cluster_id):
            self._learn((request.advertisement,), now_ms)
        return DiscoverBrokersResponse(
            cluster_id=self._cluster.id,
            brokers=self._book.gossip.advertisements,
            leader=self._node.leader,
            epoch=self._node.epoch,
            is_founded=self._has_log or self._node.high_watermark is not None,
            answerer=None if self._book.gossip.me is None else self._book.gossip.me.id,
        )

    def heard(self, place: HostPort, response: DiscoverBrokersResponse, now_ms: int) -> str | None:
        """Take in an answer; return why nothing is learned from it, if so."""
        self._asking.discard(place)
        self._has_told(place, was_heard=True)
        if self._is_own(response):
            self._led_back_by(place)
            return None
        self._unsurveyed.pop(place, None)
        foreign = self._cluster.refusal(response.cluster_id)
        if foreign is not None:
            self._survey_if_done()
            return foreign
        if response.cluster_id is not None and self._cluster.id is None:
            self._cluster.learn(response.cluster_id)
            # Only now will others believe where this node says that it is.
            self._must_introduce = True
        if self._cluster.agrees(response.cluster_id):
            self._learn(response.brokers, now_ms)
        if response.is_founded and not self._has_found:
            self._has_found = True
            self._surveyed(True)
        self._survey_if_done()
        return None

    def failed(self, place: HostPort) -> None:
        """It gave no answer that could be used."""
        self._asking.discard(place)
        self._has_told(place, was_heard=False)
        if place in self._unsurveyed:
            self._unsurveyed[place] -= 1
            if not self._unsurveyed[place]:
                del self._unsurveyed[place]
        self._survey_if_done()

    def _has_told(self, place: HostPort, *, was_heard: bool) -> None:
        """Somebody has been asked, and so told where this node is, or perhaps not."""
        tries = self._unconvinced.pop(place, 0) if place in self._convincing else 0
        self._convincing.discard(place)
        if tries > 1 and not was_heard:
            self._unconvinced[place] = tries - 1

    def advertised_again(self, boot_timestamp: int) -> None:
        """This is durable, and the timestamp of this boot from now on."""
        gossip = self._book.gossip
        gossip.advertise_again(boot_timestamp)
        self._is_saying = False
        self._rival = gossip.contradiction(() if self._rival is None else (self._rival,))
        # Whoever believes another one does not find this node: it is up to this one to go there,
        # and to go again where that was lost. What is under way says what was before.
        self._must_introduce = True
        self._unconvinced = dict.fromkeys(self._book.places(), ADVERTISE_AGAIN_TRIES)
        self._convincing.clear()

    def _is_own(self, response: DiscoverBrokersResponse) -> bool:
        """Return True if this node answered itself. Another one of the same id is elsewhere, or has
        another directory."""
        me = self._book.gossip.me
        return (
            me is not None
            and response.answerer == me.id
            and any(each.key == me.key and each.address == me.address for each in response.brokers)
        )

    def _led_back_by(self, place: HostPort) -> None:
        """From itself a node learns nothing, least of all that there is no quorum."""
        if place in self._unsurveyed:
            self._led_back[place] += 1
            if self._led_back[place] == LED_BACK_MAX:
                del self._unsurveyed[place]
            # It costs nobody anything, and somebody else may answer the next time.
            self._wait_ms = SEARCH_MS
        self._survey_if_done()

    def _survey_if_done(self) -> None:
        if not self._unsurveyed and not self._has_surveyed:
            self._has_surveyed = True
            if not self._has_found:
                self._surveyed(False)

    def _learn(self, heard: Sequence[Advertisement], now_ms: int) -> None:
        rivals = heard if self._rival is None else (*heard, self._rival)
        self._rival = self._book.gossip.contradiction(rivals)
        self._answer_rival(now_ms)
        self._book.learn(heard)

    def _answer_rival(self, now_ms: int) -> None:
        """Say again where this node is, if another one is taken for it; or see to it in time.

        Who has to wait does not wait to hear of it again: it may be one node of many that is
        wrong, and the next time that one is asked is by chance. And one thing is said at a time:
        a disk may take longer for it than until the next one is due.
        """
        rival = self._rival
        if rival is None or self._is_saying:
            return
        if self._advertised_again_ms is None or now_ms >= self._advertised_again_ms + ADVERTISE_AGAIN_MS:
            self._rival, self._is_saying, self._advertised_again_ms = None, True, now_ms
            self._advertise_again(rival)
        else:
            self.deadline_ms = min(self.deadline_ms, self._advertised_again_ms + ADVERTISE_AGAIN_MS)

    def _chosen(self, free: list[HostPort], most: int) -> tuple[HostPort, ...]:
        if len(free) <= most:
            return tuple(free)
        first = [each for each in free if each in self._unsurveyed][:most]
        others = [each for each in free if each not in first]
        return (*first, *self._rng.sample(others, most - len(first)))
