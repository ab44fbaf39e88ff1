"""Faults in discovery: the addresses of nodes, and the founding of a cluster."""

from typing import Final

from chaos.mutants.mutant import Mutant

GOSSIP: Final = (
    Mutant(
        name="a boot timestamp is only the time of day",
        module="quorum.log.meta_properties",
        old="boot = max(0, wall_ms, _last_boot(path, fs) + 1)",
        new="boot = max(0, wall_ms)",
        caught_by=("R22",),
        directed=(
            "tests/quorum/log/test_boot_timestamp.py::"
            "test_each_boot_is_later_than_all_before_whatever_the_clock_does"
        ),
        seed=40,
    ),
    Mutant(
        name="a boot timestamp is sent before it is durable",
        module="quorum.log.meta_properties",
        old="        replace_file(path, _written_boot(boot), fs)\n    return boot",
        new="        pass\n    return boot",
        caught_by=("R22",),
        directed=(
            "tests/quorum/log/test_boot_timestamp.py::"
            "test_each_boot_is_later_than_all_before_whatever_the_clock_does"
        ),
        seed=1,
    ),
    Mutant(
        name="an address of an earlier boot replaces one of a later boot",
        module="quorum.discovery.gossip",
        old="            return self.boot_timestamp > known.boot_timestamp\n",
        new="            return True\n",
        caught_by=("R22",),
        directed="tests/quorum/discovery/test_gossip.py::test_an_entry_is_replaced_only_by_a_later_boot",
        seed=2,
    ),
    Mutant(
        name="a node does not correct an address of its earlier boot",
        module="quorum.discovery.schedule",
        old="        if rival is None or self._is_saying:\n",
        new="        if True:\n",
        caught_by=("liveness",),
        directed=(
            "tests/quorum/discovery/test_discovery_schedule.py::"
            "test_a_node_that_is_taken_for_another_repeats_its_address_now_and_then"
        ),
        seed=32,
    ),
    Mutant(
        name="discovery learns addresses from another cluster",
        module="quorum.cluster_id",
        old="        return other == (self._id or self._learning)\n\n"
        "    def refusal(self, other: str | None) -> str | None:\n",
        new="        return True\n\n"
        "    def refusal(self, other: str | None) -> str | None:\n"
        "        return None\n\n"
        "    def _reason(self, other: str | None) -> str | None:\n",
        caught_by=("R13",),
        directed="tests/quorum/discovery/test_discovery_schedule.py::test_nothing_is_learned_from_another_cluster",
    ),
    Mutant(
        name="a node founds a cluster without a search for an existing one",
        module="quorum.core.leader_discovery",
        old="if state.log.end.offset == 0 and (not discovery.has_surveyed or discovery.has_found):",
        new="if False:",
        caught_by=("R1",),
        directed=(
            "tests/quorum/core/test_leader_discovery.py::"
            "test_a_node_with_bootstrap_servers_asks_them_before_it_founds"
        ),
        seed=1,
    ),
    Mutant(
        name="a node founds a cluster although it knows of one",
        module="quorum.core.leader_discovery",
        old="(not discovery.has_surveyed or discovery.has_found)",
        new="not discovery.has_surveyed",
        caught_by=("R1",),
        directed=(
            "tests/quorum/core/test_leader_discovery.py::test_a_node_that_learns_of_a_quorum_founds_no_second_one"
        ),
        seed=1,
    ),
    Mutant(
        name="a log does not begin with the id of the cluster",
        module="quorum.accumulator",
        old="None if assignment is None else self._cluster.id_to_found_with()",
        new="None",
        caught_by=("R19",),
        directed="tests/chaos/simulation/test_founding_records.py",
    ),
    Mutant(
        name="a log does not begin with its voters",
        module="quorum.core.leader",
        old="    if start > 0 or not state.records_voters:\n",
        new="    if True:\n",
        caught_by=("R19",),
        directed="quorum_founding",
    ),
)
