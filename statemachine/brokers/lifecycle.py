"""Broker lifecycle: registration, heartbeats, fencing, shutdown, cordons, unregistration.

KIP-631. A broker epoch is the offset of the record that registered the incarnation, so it is unique
and rises. A broker that may not lead leaves every ISR in the same decision. If it is the last
member and there is no ELR, it stays in the ISR and the partition has no leader.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace
from pyroaring import BitMap

from statemachine.brokers import directories
from statemachine.commands import (
    BrokerCordoned,
    BrokerHeartbeat,
    BrokerRegistered,
    BrokersCordoned,
    BrokersFenced,
    CordonBrokers,
    Done,
    FenceBrokers,
    HeartbeatAnswered,
    RegisterBroker,
    UnregisterBroker,
)
from statemachine.errors import Error, Refusal, listed
from statemachine.features.features import KRAFT_VERSION
from statemachine.image.image import Image
from statemachine.image.partition_index import first_after
from statemachine.limits import (
    DISTRUSTED_PARTITIONS_MAX,
    HELD_PARTITIONS_NAMED_MAX,
    LEAVING_PARTITIONS_MAX,
    RESERVED_DIRECTORY_IDS,
)
from statemachine.partitions.elect_leaders import elect_each
from statemachine.partitions.isr import stale_broker
from statemachine.partitions.leader_election import isr_without
from statemachine.pending_decision import PendingDecision
from statemachine.records import kafka_records
from statemachine.slices import Slices, whole
from statemachine.vocabulary import (
    LEVEL_DIRECTORIES,
    METADATA_VERSION,
    NO_LEADER,
    BrokerId,
    Replicas,
)

_amendable: Final = attrgetter("endpoints", "features", "rack", "log_dirs")
"""The part of a registration that the same incarnation may change."""


def register_broker(pending: PendingDecision, command: RegisterBroker) -> Slices[BrokerRegistered]:
    """Register an incarnation, fenced; the same incarnation keeps its epoch and its state."""
    refusal = _registration_refusal(pending, command)
    if refusal is not None:
        return BrokerRegistered.from_refusal(refusal)
    before = pending.image.brokers.get(command.broker_id)
    # The registration of the same incarnation, if there is one.
    known = before
    if before is not None and before.incarnation_id != command.incarnation_id:
        known = None
    # An incarnation that stopped cleanly has flushed everything to disk.
    if known is None and (before is None or command.previous_epoch != before.broker_epoch):
        yield from _distrust(pending, command.broker_id)
    next_offset = pending.image.end_offset + len(pending.records)
    record = kafka_records.RegisterBroker(
        broker_id=command.broker_id,
        incarnation_id=command.incarnation_id,
        broker_epoch=next_offset if known is None else known.broker_epoch,
        endpoints=command.endpoints,
        features=command.features,
        rack=command.rack,
        fenced=known is None or known.fenced,
        in_controlled_shutdown=known is not None and known.stopping_at is not None,
        log_dirs=command.log_dirs if pending.level >= LEVEL_DIRECTORIES else (),
        # A new incarnation has not reported them yet.
        cordoned_log_dirs=None if known is None else known.cordoned_log_dirs,
    )
    # Recorded last, after it has left every ISR and ELR that it may no longer be in.
    if pending.is_complete and (known is None or _amendable(known) != _amendable(record)):
        pending.register(record)
    return BrokerRegistered(broker_epoch=record.broker_epoch)


def _registration_refusal(pending: PendingDecision, command: RegisterBroker) -> Refusal | None:
    if command.cluster_id != command.our_cluster_id:
        return Refusal(
            Error.INCONSISTENT_CLUSTER_ID,
            f"this is cluster {command.our_cluster_id}, the broker is of {command.cluster_id}",
        )
    if command.broker_id < 0:
        return Refusal(
            Error.INVALID_REGISTRATION, f"broker ids are not negative: {command.broker_id}"
        )
    before = pending.image.brokers.get(command.broker_id)
    if before is not None and not before.fenced and before.incarnation_id != command.incarnation_id:
        return Refusal(
            Error.DUPLICATE_BROKER_REGISTRATION,
            f"another incarnation of broker {command.broker_id} is alive, epoch"
            f" {before.broker_epoch}",
        )
    if pending.level >= LEVEL_DIRECTORIES:
        refusal = _directory_refusal(pending.image, command)
        if refusal is not None:
            return Refusal(Error.INVALID_REGISTRATION, refusal)
    return _feature_refusal(pending.image, command)


def _directory_refusal(image: Image, command: RegisterBroker) -> str | None:
    """Return the reason to refuse the log directories, or None (KIP-858)."""
    if not command.log_dirs:
        return f"broker {command.broker_id} names no log directory"
    if len(set(command.log_dirs)) != len(command.log_dirs):
        return f"broker {command.broker_id} names a log directory twice"
    reserved = [directory for directory in command.log_dirs if _is_reserved(directory)]
    if reserved:
        return f"log directory id {reserved[0]} is reserved"
    for other in image.brokers.values():
        taken = [directory for directory in command.log_dirs if directory in other.log_dirs]
        if taken and other.broker_id != command.broker_id:
            return f"log directory {taken[0]} is registered by broker {other.broker_id}"
    return None


def _is_reserved(directory: UUID) -> bool:
    upper, lower = directory.int >> 64, directory.int & (2**64 - 1)
    # The lower half is a signed number to Kafka, and negative ones are below 100 too.
    return upper == 0 and not RESERVED_DIRECTORY_IDS <= lower < 2**63


def _feature_refusal(image: Image, command: RegisterBroker) -> Refusal | None:
    """Return the refusal for a feature that the broker does not support, or None (KIP-584).

    The features that it names and those in force count; it does not support any other (KIP-1022).
    """
    supported = {feature.name: feature for feature in command.features}
    if METADATA_VERSION not in supported:
        return Refusal(
            Error.INVALID_REGISTRATION,
            f"broker {command.broker_id} does not name the levels of metadata.version it supports",
        )
    levels = {**dict.fromkeys(supported, 0), **image.features}
    levels[KRAFT_VERSION] = command.kraft_version
    for name, level in sorted(levels.items(), key=lambda each: (each[0] != METADATA_VERSION, each)):
        feature = supported.get(name)
        lowest, highest = (feature.min_supported, feature.max_supported) if feature else (0, 0)
        if not lowest <= level <= highest:
            known = f"{lowest} to {highest}" if feature else "no level"
            return Refusal(
                Error.UNSUPPORTED_VERSION,
                f"{name} {level} is in force, broker {command.broker_id} supports {known} of it",
            )
    return None


def heartbeat(pending: PendingDecision, command: BrokerHeartbeat) -> Slices[HeartbeatAnswered]:
    """Answer a heartbeat: unfence, fence or stop the broker if it wants that and may."""
    stale = stale_broker(pending.image, command.broker_id, command.broker_epoch)
    if stale is not None:
        return HeartbeatAnswered.from_refusal(stale)
    broker = pending.image.brokers[command.broker_id]
    assert broker.registered_at is not None, f"no offset for {broker} in the image"
    caught_up = command.metadata_offset >= broker.registered_at
    offline = command.offline_log_dirs
    has_directories = yield from directories.lose_directories(pending, broker, offline)
    directories.cordon_directories(pending, broker, command.cordoned_log_dirs)
    if broker.fenced:
        wants = not (command.want_fence or command.want_shut_down)
        rises = caught_up and has_directories and wants
        if rises:
            yield from _unfence(pending, broker)
        return HeartbeatAnswered(
            caught_up=caught_up, fenced=not rises, should_shut_down=command.want_shut_down
        )
    if not has_directories or _may_go(pending.image, broker, command):
        yield from _fence(pending, (broker.broker_id,))
        return HeartbeatAnswered(
            caught_up=caught_up,
            fenced=True,
            should_shut_down=command.want_shut_down or broker.stopping_at is not None,
        )
    if command.want_shut_down:
        yield from _stop(pending, broker)
    else:
        yield from _lead_the_rest(pending, broker)
    return HeartbeatAnswered(caught_up=caught_up, fenced=False)


def _may_go(image: Image, broker: kafka_records.RegisterBroker, command: BrokerHeartbeat) -> bool:
    """Return True if an unfenced broker that wants to shut down may be fenced now."""
    if broker.stopping_at is None:
        leads = image.index.count(image.index.leader_of, broker.broker_id)
        return command.want_fence or (command.want_shut_down and not leads)
    if image.index.count(image.index.leader_of, broker.broker_id):
        return False
    # The record that begins its shutdown follows those that move its partitions away:
    # a broker that has applied it has applied them.
    slowest = command.lowest_live_offset
    return slowest is None or slowest >= broker.stopping_at


def _stop(pending: PendingDecision, broker: kafka_records.RegisterBroker) -> Slices[None]:
    """Begin or continue the controlled shutdown of the broker."""
    # All at once: it is alive, and would join ISRs again before a second decision.
    yield from _leave(pending, (broker.broker_id,), at_once=True)
    if broker.stopping_at is None:
        _amend(pending, broker, in_controlled_shutdown=_BEGIN)


def fence_brokers(pending: PendingDecision, command: FenceBrokers) -> Slices[BrokersFenced]:
    """Fence the brokers whose sessions have expired, all in one decision."""
    brokers = pending.image.brokers
    fenced = tuple(
        sorted({b for b in command.broker_ids if b in brokers and not brokers[b].fenced})
    )
    yield from _fence(pending, fenced)
    return BrokersFenced(broker_ids=fenced)


def unregister_broker(pending: PendingDecision, command: UnregisterBroker) -> Slices[Done]:
    """Unregister a broker. Its replicas stay assigned to it until they are reassigned."""
    broker = pending.image.brokers.get(command.broker_id)
    if broker is None:
        return Done.from_refusal(unregistered(command.broker_id))
    refusal = in_use_refusal(pending.image, command.broker_id) if command.only_if_empty else None
    if refusal is not None:
        return Done.from_refusal(refusal)
    yield from _leave(pending, (broker.broker_id,))
    if pending.is_complete:
        pending.records.append(
            kafka_records.UnregisterBroker(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch
            )
        )
    return Done()


def _fence(pending: PendingDecision, broker_ids: Replicas) -> Slices[None]:
    yield from _leave(pending, broker_ids)
    for broker_id in broker_ids if pending.is_complete else ():
        broker = pending.image.brokers[broker_id]
        _amend(pending, broker, fenced=_BEGIN, at_ms=pending.now_ms or None)


_BEGIN: Final = 1
_END: Final = -1
"""The values of a BrokerRegistrationChange for the begin and end of a state; 0 is "unchanged"."""


def _amend(pending: PendingDecision, broker: kafka_records.RegisterBroker, **fields: Any) -> None:
    pending.records.append(
        kafka_records.BrokerRegistrationChange(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, **fields
        )
    )


def _unfence(pending: PendingDecision, broker: kafka_records.RegisterBroker) -> Slices[None]:
    """Unfence the broker, and elect leaders for partitions that had none without it."""
    index = pending.image.index
    _amend(pending, broker, fenced=_END)
    pending.set_live(broker.broker_id, broker.stopping_at is None)
    held = index.of_any(index.replicas_of, (broker.broker_id,))
    yield from _lead_the_leaderless(pending, held)


def _lead_the_rest(pending: PendingDecision, broker: kafka_records.RegisterBroker) -> Slices[None]:
    """Elect leaders for partitions that an earlier, bounded decision left without one."""
    index = pending.image.index
    if broker.live and index.leader_of.get(NO_LEADER):
        of_it = (broker.broker_id,)
        held = index.of_any(index.isr_of, of_it) | index.of_any(index.elr_of, of_it)
        yield from _lead_the_leaderless(pending, held)


def _lead_the_leaderless(pending: PendingDecision, held: BitMap) -> Slices[None]:
    index = pending.image.index
    leaderless = held & index.leader_of.get(NO_LEADER, BitMap())
    yield from elect_each(pending, leaderless, lambda each: each, at_most=LEAVING_PARTITIONS_MAX)


def _leave(pending: PendingDecision, leaving: Replicas, *, at_once: bool = False) -> Slices[None]:
    """Remove the brokers from every ISR and leadership, with one change for each partition."""
    index = pending.image.index
    for broker_id in leaving:
        pending.set_live(broker_id, False)
    yield from elect_each(
        pending,
        index.of_any(index.isr_of, leaving),
        lambda each: replace(each, isr=isr_without(pending, each, leaving)),
        at_most=None if at_once else LEAVING_PARTITIONS_MAX,
    )


def _distrust(pending: PendingDecision, broker_id: BrokerId) -> Slices[None]:
    """Remove a broker that may have lost records from ISR and ELR (KIP-966).

    Without the feature it stays in the ISR, and only leaves an ELR from before the switch.
    """
    index = pending.image.index
    pending.set_live(broker_id, False)
    keys = index.of_any(index.elr_of, (broker_id,))
    if pending.has_elr:
        keys |= index.of_any(index.isr_of, (broker_id,))
    yield from elect_each(
        pending,
        keys,
        lambda each: replace(
            each,
            isr=tuple(replica for replica in each.isr if replica != broker_id),
            elr=tuple(replica for replica in each.elr if replica != broker_id),
        ),
        at_most=DISTRUSTED_PARTITIONS_MAX,
        unclean=(broker_id,),
    )


def is_closed(broker: kafka_records.RegisterBroker) -> bool:
    """Return True if the broker gets no new replicas: it is cordoned, or has reported that all its
    log directories are (KIP-1066)."""
    if broker.cordoned_log_dirs is None or not broker.log_dirs:
        return broker.cordoned
    return broker.cordoned or set(broker.cordoned_log_dirs).issuperset(broker.log_dirs)


def closed_note(closed: Iterable[BrokerId]) -> str:
    """A sentence about the brokers that get no new replicas; empty if there are none."""
    if not (named := listed(sorted(closed))):
        return ""
    return (
        f" Broker(s) {named} get no new replicas: they are cordoned, or all their log directories"
        " are."
    )


def takers(image: Image) -> list[kafka_records.RegisterBroker]:
    """Return the brokers that new replicas may be placed on."""
    return [broker for broker in image.brokers.values() if broker.live and not is_closed(broker)]


def fenced_takers(image: Image) -> list[BrokerId]:
    """Return the fenced brokers that may get replicas once live ones are too few, by id."""
    return [
        broker.broker_id
        for broker in sorted(image.brokers.values(), key=lambda each: each.broker_id)
        if broker.fenced and not is_closed(broker) and not broker.in_controlled_shutdown
    ]


def cordon_refusal(image: Image, newcomers: Replicas, *, where: str = "") -> Refusal | None:
    """Return the reason why one of these brokers may not get a replica, or None.

    `where` is a prefix of the message.
    """
    for broker_id in newcomers:
        broker = image.brokers.get(broker_id)
        if broker is None or not is_closed(broker):
            continue
        reason = (
            "is cordoned and gets no new replicas; uncordon it"
            if broker.cordoned
            else "gets no new replicas, since all its log directories are cordoned by its setting"
            " cordoned.log.dirs; change that"
        )
        return Refusal(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"{where}broker {broker_id} {reason}, or name another one",
        )
    return None


def cordon_brokers(pending: PendingDecision, command: CordonBrokers) -> BrokersCordoned:
    """Cordon the brokers or end their cordons, each independently."""
    word = _BEGIN if command.cordoned else _END
    for broker_id in dict.fromkeys(command.broker_ids):
        broker = pending.image.brokers.get(broker_id)
        if broker is None:
            continue
        cordoned = word if broker.cordoned != command.cordoned else 0
        is_to_go = command.cordoned and (command.unregister or broker.leaving)
        leaving = word if broker.leaving != is_to_go else 0
        if cordoned or leaving:
            _amend(pending, broker, cordoned=cordoned, leaving=leaving)
    return BrokersCordoned(
        brokers=tuple(
            [
                BrokerCordoned.from_refusal(
                    None if each in pending.image.brokers else unregistered(each), broker_id=each
                )
                for each in command.broker_ids
            ]
        )
    )


def unregistered(broker_id: BrokerId) -> Refusal:
    """Return the refusal for a broker that is not registered."""
    return Refusal(
        Error.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
    )


def in_use_refusal(image: Image, broker_id: BrokerId) -> Refusal | None:
    """Return the reason not to unregister the broker yet (it lives, or has replicas), or None."""
    broker, index = image.brokers[broker_id], image.index
    if not broker.fenced:
        state = "alive" if broker.stopping_at is None else "stopping"
        return Refusal(
            Error.INVALID_REQUEST,
            f"broker {broker_id} is {state}, and would not know of it; unregister it once it has"
            " stopped",
        )
    keys = index.of_any(index.replicas_of, (broker_id,))
    if not keys:
        return None
    first = whole(first_after(index.topics(keys), keys, None, HELD_PARTITIONS_NAMED_MAX))
    named = ", ".join(f"{topic.name}-{number}" for topic, number in first)
    more = len(keys) - HELD_PARTITIONS_NAMED_MAX
    others = f" and {more} more" if more > 0 else ""
    return Refusal(
        Error.INVALID_REQUEST,
        f"broker {broker_id} still has replicas of {len(keys)} partition(s): {named}{others};"
        " decommission it first",
    )
