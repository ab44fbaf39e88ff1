"""The first records of a log, in a whole cluster without faults."""

from dataclasses import replace

import pytest

from chaos.simulation.environment import CLUSTER_ID
from chaos.simulation.profile import CALM, Profile
from chaos.simulation.run import Simulation
from quorum.records.control import cluster_id_in


@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_a_log_begins_with_the_id_of_its_cluster(seed: int) -> None:
    """KIP-595, "Bootstrapping": one that was given, or one that the first leader has made."""
    profile = replace(Profile.drawn(seed), rates=CALM, faults=(), strikes=())
    simulation = Simulation(profile)
    simulation.run()
    found = cluster_id_in(simulation.world.invariants.history.between(0, 3)[0].data)
    assert found is not None
    assert (found == CLUSTER_ID) == profile.names_cluster
