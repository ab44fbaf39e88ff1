"""Faults in what protects a cluster from strangers; the seeds have a hostile node in every run."""

from typing import Final

from chaos.mutants.mutant import Mutant

_STRANGERS: Final = "tests/quorum/core/test_stranger_epochs.py::"

HOSTILITY: Final = (
    Mutant(
        name="strangers may raise the epoch without a limit",
        module="quorum.core.epoch_allowance",
        old="        if epochs > self.left:\n",
        new="        if False:\n",
        caught_by=("R31",),
        directed=f"{_STRANGERS}test_all_that_voters_add_to_the_epoch_is_bounded",
        kind="hostile",
        seed=29,
    ),
    Mutant(
        name="strangers may raise the epoch while the leader is heard",
        module="quorum.core.state",
        old="        if self.hears_leader(now_ms) or now_ms < self.strangers_from_ms:\n",
        new="        if now_ms < self.strangers_from_ms:\n",
        caught_by=("R32",),
        directed=f"{_STRANGERS}test_a_stranger_deposes_nobody_while_the_leader_is_heard",
        kind="hostile",
    ),
    Mutant(
        name="whoever names the id of a voter is taken for it",
        module="quorum.core.state",
        old="        if self.voters.has(replica):\n",
        new="        if replica.id in self.voters:\n",
        caught_by=("R31", "R32"),
        directed=f"{_STRANGERS}test_a_stranger_deposes_nobody_while_the_leader_is_heard",
        kind="hostile",
    ),
    Mutant(
        name="an announcement to an observer need not name its directory",
        module="quorum.core.elections",
        old="    return addressed == state.me\n",
        new="    return own is None or addressed == state.me\n",
        caught_by=("R31", "R32"),
        directed=(
            f"{_STRANGERS}test_an_observer_believes_no_announcement_that_does_not_name_its_directory"
        ),
        kind="hostile",
    ),
    Mutant(
        name="an announcement to a voter need not name its directory",
        module="quorum.core.elections",
        old="    return addressed == state.me\n",
        new="    return own is not None or addressed == state.me\n",
        caught_by=("R25", "R31", "R32"),
        directed=f"{_STRANGERS}test_only_a_voter_that_names_our_directory_announces_itself",
        kind="hostile",
    ),
    Mutant(
        name="a boot timestamp of a far future is believed",
        module="quorum.discovery.discover_brokers",
        old="        if not is_of_the_future(advertisement, wall_ms):\n",
        new="        if True:\n",
        caught_by=("R22",),
        directed=(
            "tests/quorum/discovery/test_discover_brokers.py::"
            "test_a_request_that_cannot_be_true_is_refused"
        ),
        kind="hostile",
    ),
    Mutant(
        name="requests between nodes are not authorized",
        module="controller.apis.refusals",
        old="        if NEEDS[key].whole is CLUSTER_ACTION\n",
        new="        if False\n",
        caught_by=("R33",),
        directed=(
            "tests/controller/apis/test_kafka_authorization.py::"
            "test_before_the_acls_are_known_only_super_users_may_do_anything"
        ),
        kind="hostile",
    ),
    Mutant(
        name="a request of a broker may have the epoch of another incarnation",
        module="statemachine.partitions.isr",
        old="    if broker.broker_epoch != broker_epoch:\n",
        new="    if False:\n",
        caught_by=("P23",),
        directed=(
            "tests/statemachine/brokers/test_broker_commands.py::"
            "test_a_heartbeat_of_another_incarnation_is_stale"
        ),
        kind="hostile-cluster",
    ),
)
