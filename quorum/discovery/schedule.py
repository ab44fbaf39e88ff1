"""The schedule of DiscoverBrokers requests: whom to ask next, and what responses change (KIP-595).

At its start a node asks its bootstrap servers and all known addresses, with growing pauses, until
it knows a leader and the address of every voter. After that it asks one node now and then. This
needs neither a leader nor a majority. `round` returns the addresses to ask, and the caller reports
each outcome.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from quorum.cluster_id import ClusterIdentity
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import HostPort
from quorum.discovery.address_book import AddressBook
from quorum.discovery.gossip import Advertisement, DiscoverBrokersRequest, DiscoverBrokersResponse

ASKED_AT_ONCE_MAX: Final = 16
"""Addresses asked in one round; of more, a random choice."""

SEARCH_MS: Final = 100
SEARCH_MS_MAX: Final = 2_000
"""The pause between two rounds of a search; it doubles."""

SURVEY_TRIES: Final = 3
"""The failed attempts after which a bootstrap server counts as not knowing a quorum."""

LED_BACK_MAX: Final = 32
"""The responses of a bootstrap server from this node itself after which it counts as this node.
Several nodes may share one address, and chance must not hide the other ones. A node that founds
alone and lists itself waits for so many rounds."""

ADVERTISE_AGAIN_TRIES: Final = 8
"""The attempts to send a raised boot timestamp to an address."""

ROUTINE_MS: Final = 10_000
ROUTINE_MS_PER_NODE: Final = 20
"""The pause between two rounds without a search, and its increase for each known node: a response
lists them all."""

ADVERTISE_AGAIN_MS: Final = 10_000
"""The minimal interval between two raises of the boot timestamp: two nodes with one id would raise
theirs without end."""


class DiscoverySchedule:
    """The gossip of one node; times are monotonic milliseconds."""

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
        """`has_log` is True if the log of `node` has records.

        `surveyed` is called with True once a quorum is found, or with False once every bootstrap
        server has been asked in vain. `advertise_again` is called with another advertisement for
        this node's id: it must raise the boot timestamp above that one and call `advertised_again`.
        """
        self._book = book
        self._cluster = cluster
        self._node = node
        self._has_log = has_log
        self._surveyed = surveyed
        self._advertise_again = advertise_again
        self._rng = rng
        self.deadline_ms = now_ms
        """The time of the next `round`, unless `is_due` returns True before."""
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
        """Another advertisement for this node's id that needs a later one."""
        self._unconvinced: dict[HostPort, int] = {}
        """The addresses that may still hold a rival, with the remaining attempts."""
        self._convincing: set[HostPort] = set()
        """Those of them that are being sent the current timestamp."""

    @property
    def is_searching(self) -> bool:
        """True while the leader or the address of a voter is unknown."""
        book = self._book
        return self._node.leader is None or any(
            book.address_of(each.id) is None for each in book.voters()
        )

    def is_due(self, now_ms: int) -> bool:
        """Return True if a `round` is due: by its time, or because a search has to begin."""
        if self._must_introduce and self._cluster.id is not None:
            return True
        if self._book.unconfirmed and not self._searched:
            return True
        return now_ms >= self.deadline_ms or (self.is_searching and not self._searched)

    def round(self, now_ms: int) -> tuple[HostPort, ...]:
        """Return the addresses to ask now; the caller reports each as `heard` or `failed`."""
        self._answer_rival(now_ms)
        book = self._book
        places = book.places()
        tries = self._unconvinced
        self._unconvinced = {each: tries[each] for each in places if each in tries}
        searching = self.is_searching or bool(self._unsurveyed) or self._must_introduce
        searching = searching or bool(self._unconvinced) or bool(self._book.unconfirmed)
        self._searched, self._must_introduce = searching, False
        if searching:
            wait_ms = self._wait_ms
            self._wait_ms = min(2 * wait_ms, SEARCH_MS_MAX)
        else:
            wait_ms = ROUTINE_MS + ROUTINE_MS_PER_NODE * len(self._book.gossip.advertisements)
            self._wait_ms = SEARCH_MS
        # A fifth of jitter, so that nodes started together do not ask together.
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
        return DiscoverBrokersRequest(
            cluster_id=self._cluster.id, advertisement=self._book.gossip.me
        )

    def asked(self, request: DiscoverBrokersRequest, now_ms: int) -> DiscoverBrokersResponse | str:
        """Learn the sender's advertisement and return the response, or the reason to refuse it.

        No cluster id is learned from a request: a node asks the cluster that it is to join.
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
        """Learn from a response; return the reason if it is ignored."""
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
            # From now on other nodes accept this node's advertisement.
            self._must_introduce = True
        if self._cluster.agrees(response.cluster_id):
            self._learn(response.brokers, now_ms)
            for each in response.brokers:
                if each.id == response.answerer and each.address == place:
                    self._book.answered(place, each)
        if response.is_founded and not self._has_found:
            self._has_found = True
            self._surveyed(True)
        self._survey_if_done()
        return None

    def failed(self, place: HostPort, *, is_refused: bool = False) -> bool:
        """Note a request without a usable response; `is_refused` if TLS or SASL failed.

        Returns True if the address is given up until its node advertises anew. A broker that was
        open once advertised its listener; gossip keeps that after the broker is secured, and its
        listener is then one for other clients than controllers. Nor is it asked for a leader.
        """
        self._asking.discard(place)
        observer = self._book.observer_at(place) if is_refused else None
        if observer is not None:
            self._book.decline(observer)
        self._book.unanswered(place)
        self._has_told(place, was_heard=False)
        if place in self._unsurveyed:
            self._unsurveyed[place] -= 1
            if not self._unsurveyed[place]:
                del self._unsurveyed[place]
        self._survey_if_done()
        return observer is not None

    def is_observer(self, place: HostPort) -> bool:
        """Return True if only gossip names the address, as that of a node that is no voter."""
        return self._book.observer_at(place) is not None

    def _has_told(self, place: HostPort, *, was_heard: bool) -> None:
        """Note that this address has, or may have, received this node's advertisement."""
        tries = self._unconvinced.pop(place, 0) if place in self._convincing else 0
        self._convincing.discard(place)
        if tries > 1 and not was_heard:
            self._unconvinced[place] = tries - 1

    def advertised_again(self, boot_timestamp: int) -> None:
        """Advertise with this boot timestamp, which is durable now."""
        gossip = self._book.gossip
        gossip.advertise_again(boot_timestamp)
        self._is_saying = False
        self._rival = gossip.contradiction(() if self._rival is None else (self._rival,))
        # Nodes that hold the rival cannot find this one, so it must reach them, repeatedly if
        # requests get lost. Requests under way carry the old timestamp.
        self._must_introduce = True
        self._unconvinced = dict.fromkeys(self._book.places(), ADVERTISE_AGAIN_TRIES)
        self._convincing.clear()

    def _is_own(self, response: DiscoverBrokersResponse) -> bool:
        """Return True if this node answered itself: same id, directory and address."""
        me = self._book.gossip.me
        return (
            me is not None
            and response.answerer == me.id
            and any(each.key == me.key and each.address == me.address for each in response.brokers)
        )

    def _led_back_by(self, place: HostPort) -> None:
        """Note that an address leads to this node; that does not show that there is no quorum."""
        if place in self._unsurveyed:
            self._led_back[place] += 1
            if self._led_back[place] == LED_BACK_MAX:
                del self._unsurveyed[place]
            # Asking again is cheap, and another node may answer the next time.
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
        """Advertise again if there is a rival, now or once the minimal interval is over.

        The rival is remembered meanwhile: perhaps only one node holds it, and that is asked again
        only by chance. There is one raise at a time, because the disk may be slow.
        """
        rival = self._rival
        if rival is None or self._is_saying:
            return
        if (
            self._advertised_again_ms is None
            or now_ms >= self._advertised_again_ms + ADVERTISE_AGAIN_MS
        ):
            self._rival, self._is_saying, self._advertised_again_ms = None, True, now_ms
            self._advertise_again(rival)
        else:
            self.deadline_ms = min(self.deadline_ms, self._advertised_again_ms + ADVERTISE_AGAIN_MS)

    def _chosen(self, free: list[HostPort], most: int) -> tuple[HostPort, ...]:
        if len(free) <= most:
            return tuple(free)
        wanted = (self._unsurveyed, self._book.unconfirmed)
        first = [each for each in free if any(each in those for those in wanted)][:most]
        others = [each for each in free if each not in first]
        return (*first, *self._rng.sample(others, most - len(first)))
