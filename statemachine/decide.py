"""Decide commands: the records to append, and the answer once they are committed.

`decide` reads and changes nothing; `replay` applies its records. Every command gets an answer: a
fault in it becomes an error. Records are decided for the offset at which the image ends, so they
must be appended there, in one piece.

"""

from typing import assert_never

from statemachine import cluster
from statemachine.brokers import directories, lifecycle
from statemachine.commands import (
    AdvanceMoves,
    AllocateProducerIds,
    AlterClientQuotas,
    AlterConfigs,
    AlterMove,
    AlterPartition,
    AlterReassignments,
    Answer,
    AssignReplicasToDirs,
    BeginMove,
    BrokerCommand,
    BrokerHeartbeat,
    CancelMoves,
    ClusterCommand,
    Command,
    ConfigCommand,
    CordonBrokers,
    CreatePartitions,
    CreateTopics,
    Decision,
    DeleteTopics,
    ElectLeaders,
    FenceBrokers,
    ForgetMoves,
    FoundCluster,
    IdempotentCommand,
    IncrementalAlterConfigs,
    KeyedAnswer,
    KeyedCommand,
    MovesAdvanced,
    PauseMoves,
    RegisterBroker,
    RegisterController,
    ResumeMoves,
    RollBackMove,
    TopicCommand,
    UnregisterBroker,
    UpdateFeatures,
)
from statemachine.configs import alter_configs, quotas
from statemachine.features import updates
from statemachine.image.image import Image
from statemachine.partitions import elect_leaders, isr
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import idempotency, move_commands, pause, retention, throttle
from statemachine.reassignment.scheduler import backlog
from statemachine.reassignment.scheduler.advance import advance
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.reassignment.settings import limits
from statemachine.slices import Slices, at_once, whole
from statemachine.topics import new_partitions, topics


def decide(
    image: Image, command: Command, *, now_ms: int = 0, scheduler: Scheduler | None = None
) -> Decision:
    """Return the decision on `command`. Changes neither the image nor the command.

    `now_ms` is the wall clock, in milliseconds since 1970, for what is recorded only to be shown; 0
    where nobody knows.
    """
    return whole(deciding(image, command, now_ms=now_ms, scheduler=scheduler))


def decide_at_once(
    image: Image, command: Command, scheduler: Scheduler | None = None
) -> Decision | None:
    """As `decide`, of what is asked most and takes some microseconds; None of what may take more.

    Slices have their cost, and so has looking for what may follow from a decision.
    """
    if not isinstance(command, AlterPartition):
        return None
    draft = PendingDecision(image, scheduler=scheduler)
    answer = isr.alter_one(draft, command)
    if answer is None:
        return None
    return Decision(draft.records, answer, decided=draft.decided)


def deciding(
    image: Image, command: Command, *, now_ms: int = 0, scheduler: Scheduler | None = None
) -> Slices[Decision]:
    """As `decide`, in slices. `image` must not change until the last of them."""
    draft = PendingDecision(image, now_ms, scheduler)
    answer = yield from _answer(draft, command)
    if draft.isr_changes is not None:
        return Decision(draft.isr_changes, answer)
    # Before anything begins that may need what has ended.
    move_commands.end_moves(draft)
    if draft.records and not isinstance(command, AdvanceMoves):
        # Whatever was freed by this is given to those that wait.
        yield from advance(draft)
        move_commands.end_moves(draft)
        if draft.ended or draft.has_freed_configs:
            yield from throttle.release(draft)
    draft.check_epoch()
    return Decision(tuple(draft.records), answer, draft.is_complete, draft.decided)


def _answer(draft: PendingDecision, command: Command) -> Slices[Answer]:
    match command:
        case AlterPartition():
            return isr.alter_partition(draft, command)
        case (
            AlterReassignments()
            | BeginMove()
            | RollBackMove()
            | CancelMoves()
            | PauseMoves()
            | ResumeMoves()
            | AlterMove()
        ):
            return _about_moves(draft, command)
        case IdempotentCommand() | ForgetMoves() | AdvanceMoves():
            return _around_moves(draft, command)
        case ElectLeaders():
            return elect_leaders.elect_leaders(draft, command)
        case (
            BrokerHeartbeat()
            | RegisterBroker()
            | FenceBrokers()
            | UnregisterBroker()
            | CordonBrokers()
            | AssignReplicasToDirs()
        ):
            return _about_brokers(draft, command)
        case CreateTopics() | CreatePartitions() | DeleteTopics():
            return _about_topics(draft, command)
        case FoundCluster() | RegisterController() | AllocateProducerIds() | UpdateFeatures():
            return at_once(_about_the_cluster(draft, command))
        case IncrementalAlterConfigs() | AlterConfigs() | AlterClientQuotas():
            return at_once(_about_configs(draft, command))
        case _:
            assert_never(command)


def _around_moves(
    draft: PendingDecision, command: IdempotentCommand | ForgetMoves | AdvanceMoves
) -> Slices[Answer]:
    match command:
        case IdempotentCommand():
            return idempotency.carry_out_once(draft, command, _about_moves)
        case ForgetMoves():
            return at_once(retention.forget_moves(draft, command))
        case AdvanceMoves():
            return _advanced(draft)
        case _:
            assert_never(command)


def _advanced(draft: PendingDecision) -> Slices[MovesAdvanced]:
    is_left = yield from backlog.take_up(draft)
    move_commands.end_moves(draft)
    more = yield from advance(draft, anew=not limits(draft).is_unlimited)
    move_commands.end_moves(draft)
    has_configs = yield from throttle.release(draft)
    return MovesAdvanced(is_left=is_left or more or has_configs)


def _about_moves(draft: PendingDecision, command: KeyedCommand) -> Slices[KeyedAnswer]:
    match command:
        case AlterReassignments():
            return move_commands.alter_reassignments(draft, command)
        case BeginMove():
            return move_commands.begin_move(draft, command)
        case RollBackMove():
            return move_commands.roll_back_move(draft, command)
        case CancelMoves():
            return move_commands.cancel_moves(draft, command)
        case PauseMoves():
            return at_once(pause.pause_moves(draft, command))
        case ResumeMoves():
            return at_once(pause.resume_moves(draft, command))
        case AlterMove():
            return pause.alter_move(draft, command)
        case _:
            assert_never(command)


def _about_brokers(draft: PendingDecision, command: BrokerCommand) -> Slices[Answer]:
    match command:
        case BrokerHeartbeat():
            return lifecycle.heartbeat(draft, command)
        case RegisterBroker():
            return lifecycle.register_broker(draft, command)
        case FenceBrokers():
            return lifecycle.fence_brokers(draft, command)
        case UnregisterBroker():
            return lifecycle.unregister_broker(draft, command)
        case CordonBrokers():
            return at_once(lifecycle.cordon_brokers(draft, command))
        case AssignReplicasToDirs():
            return directories.assign_replicas_to_dirs(draft, command)
        case _:
            assert_never(command)


def _about_topics(draft: PendingDecision, command: TopicCommand) -> Slices[Answer]:
    match command:
        case CreateTopics():
            return topics.create_topics(draft, command)
        case CreatePartitions():
            return new_partitions.create_partitions(draft, command)
        case DeleteTopics():
            return topics.delete_topics(draft, command)
        case _:
            assert_never(command)


def _about_the_cluster(draft: PendingDecision, command: ClusterCommand) -> Answer:
    match command:
        case FoundCluster():
            return cluster.found_cluster(draft, command)
        case RegisterController():
            return cluster.register_controller(draft, command)
        case AllocateProducerIds():
            return cluster.allocate_producer_ids(draft, command)
        case UpdateFeatures():
            return updates.update_features(draft, command)
        case _:
            assert_never(command)


def _about_configs(draft: PendingDecision, command: ConfigCommand) -> Answer:
    match command:
        case IncrementalAlterConfigs():
            return alter_configs.incremental_alter_configs(draft, command)
        case AlterConfigs():
            return alter_configs.alter_configs(draft, command)
        case AlterClientQuotas():
            return quotas.alter_client_quotas(draft, command)
        case _:
            assert_never(command)
