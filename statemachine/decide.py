"""Decide commands: the records to append, and the answer once they are committed.

`decide` reads the image and changes nothing in it; `replay` applies the records. Every command gets
an answer: a fault in it becomes an error. Records are decided for the end offset of the image, and
must be appended there as one batch.
"""

from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from statemachine import cluster, commands
from statemachine.brokers import directories, lifecycle
from statemachine.commands import AdvanceMoves, AlterPartition, Answer, Command, Decision
from statemachine.configs import alter_configs, quotas
from statemachine.image.image import Image
from statemachine.image.partition_table import IsrChange
from statemachine.partitions import elect_leaders, isr
from statemachine.pending_decision import PendingDecision
from statemachine.reassignment import idempotency, move_commands, retention, throttle
from statemachine.reassignment.scheduler import backlog
from statemachine.reassignment.scheduler.advance import advance
from statemachine.reassignment.scheduler.state import Scheduler
from statemachine.reassignment.settings import limits
from statemachine.security import acls, delegation_tokens, scram
from statemachine.slices import Slices, whole
from statemachine.topics import topics
from statemachine.topics.mutation_quota import MutationView


def decide(
    image: Image,
    command: Command,
    *,
    now_ms: int = 0,
    scheduler: Scheduler | None = None,
    mutations: MutationView | None = None,
) -> Decision:
    """Return the decision on `command`. Changes neither the image nor the command.

    A read may fill the cache of decoded rows, which no result depends on. `now_ms` is the wall
    clock in milliseconds since 1970, for times that are displayed or compared with each other;
    0 if unknown. `scheduler` keeps its queue between decisions. `mutations` is the use of
    the quotas of controller mutations, which the decision does not change either; without it none
    applies.
    """
    work = deciding(image, command, now_ms=now_ms, scheduler=scheduler, mutations=mutations)
    return whole(work)


def decide_at_once(
    image: Image,
    command: Command,
    scheduler: Scheduler | None = None,
    known: isr.PlainIsrs | None = None,
) -> tuple[IsrChange | None, Answer] | None:
    """Decide the most frequent command within microseconds; None if it may take longer.

    This saves the overhead of slices and the search for steps that may follow. `known` keeps its
    decided ISRs between commands.
    """
    if not isinstance(command, AlterPartition):
        return None
    known = isr.PlainIsrs() if known is None else known
    return isr.alter_one(image, command, scheduler, known)


def deciding(
    image: Image,
    command: Command,
    *,
    now_ms: int = 0,
    scheduler: Scheduler | None = None,
    mutations: MutationView | None = None,
) -> Slices[Decision]:
    """Decide like `decide`, in slices. `image` must not change until the last slice."""
    pending = PendingDecision(image, now_ms, scheduler)
    pending.mutations = mutations
    answer = yield from _answer(pending, command)
    if pending.isr_changes is not None:
        return Decision(pending.isr_changes, answer)
    # Moves end before steps begin: the steps may need the capacity of ended moves.
    move_commands.end_moves(pending)
    if pending.records and not isinstance(command, AdvanceMoves):
        # Waiting steps get the capacity that this decision has freed.
        yield from advance(pending)
        move_commands.end_moves(pending)
        yield from throttle.settle(pending)
    pending.check_epoch()
    budget = pending.mutation_budget
    left = None if budget is None else budget.left
    return Decision(tuple(pending.records), answer, pending.is_complete, pending.decided, left)


def _answer(pending: PendingDecision, command: Command) -> Slices[Any]:
    """Apply the rule of the command, which may answer in slices or at once."""
    kept = pending
    if commands.is_dry_run(command):
        kept = PendingDecision(pending.image, pending.now_ms)
        kept.mutations = pending.mutations
    answer = RULES[type(command)](kept, command)
    if isinstance(answer, Generator):
        answer = yield from answer
    # As in Kafka, a request of its protocol that only validates uses the quota.
    pending.mutation_budget = kept.mutation_budget
    return answer


def _advance_moves(
    pending: PendingDecision, _command: AdvanceMoves
) -> Slices[commands.MovesAdvanced]:
    is_left = yield from backlog.take_up(pending)
    move_commands.end_moves(pending)
    more = yield from advance(pending, check_pauses=not limits(pending).is_unlimited)
    move_commands.end_moves(pending)
    pending.has_freed_configs = True
    has_configs = yield from throttle.settle(pending)
    return commands.MovesAdvanced(is_left=is_left or more or has_configs)


RULES: Final[Mapping[type, Callable[[PendingDecision, Any], Slices[Answer] | Answer]]] = (
    MappingProxyType(
        {
            commands.AlterPartition: isr.alter_partition,
            commands.ElectLeaders: elect_leaders.elect_leaders,
            commands.AlterReassignments: move_commands.alter_reassignments,
            commands.BeginMove: move_commands.begin_move,
            commands.RollBackMove: move_commands.roll_back_move,
            commands.CancelMoves: move_commands.cancel_moves,
            commands.PauseMoves: move_commands.pause_moves,
            commands.AlterMove: move_commands.alter_move,
            commands.IdempotentCommand: partial(idempotency.carry_out_once, carry_out=_answer),
            commands.ForgetMoves: retention.forget_moves,
            commands.AdvanceMoves: _advance_moves,
            commands.BrokerHeartbeat: lifecycle.heartbeat,
            commands.RegisterBroker: lifecycle.register_broker,
            commands.FenceBrokers: lifecycle.fence_brokers,
            commands.UnregisterBroker: lifecycle.unregister_broker,
            commands.CordonBrokers: lifecycle.cordon_brokers,
            commands.AssignReplicasToDirs: directories.assign_replicas_to_dirs,
            commands.CreateTopics: topics.create_topics,
            commands.CreatePartitions: topics.create_partitions,
            commands.DeleteTopics: topics.delete_topics,
            commands.FoundCluster: cluster.found_cluster,
            commands.RegisterController: cluster.register_controller,
            commands.AllocateProducerIds: cluster.allocate_producer_ids,
            commands.UpdateFeatures: cluster.update_features,
            commands.IncrementalAlterConfigs: alter_configs.alter_configs,
            commands.AlterClientQuotas: quotas.alter_client_quotas,
            commands.CreateAcls: acls.create_acls,
            commands.DeleteAcls: acls.delete_acls,
            commands.AlterUserScramCredentials: scram.alter_user_scram_credentials,
            commands.CreateDelegationToken: delegation_tokens.create_delegation_token,
            commands.RenewDelegationToken: delegation_tokens.renew_delegation_token,
            commands.ExpireDelegationToken: delegation_tokens.expire_delegation_token,
            commands.ForgetDelegationTokens: delegation_tokens.forget_delegation_tokens,
        }
    )
)
"""The rule of each command; a test keeps it complete."""
