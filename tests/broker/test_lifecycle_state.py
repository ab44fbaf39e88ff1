"""The next request of a broker to its controller, by the answers so far; nothing waits here."""

import pytest

from broker.lifecycle import LifecycleState, RegistrationRejected
from broker.limits import STARTING_HEARTBEAT_MS

INTERVAL_MS = 2_000


def a_broker() -> LifecycleState:
    return LifecycleState(heartbeat_interval_ms=INTERVAL_MS, previous_epoch=-1)


def a_registered_broker() -> LifecycleState:
    living = a_broker()
    assert living.on_registration(0, 7)
    return living


def test_a_registration_gives_the_epoch_and_leaves_the_broker_fenced() -> None:
    living = a_registered_broker()
    assert (living.broker_epoch, living.previous_epoch, living.is_fenced) == (7, 7, True)
    assert living.wait_ms == STARTING_HEARTBEAT_MS


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(104, id="another cluster"),
        pytest.param(35, id="a level it does not know"),
        pytest.param(119, id="a registration that contradicts itself"),
    ],
)
def test_a_registration_that_no_retry_can_change_is_rejected(code: int) -> None:
    living = a_broker()
    with pytest.raises(RegistrationRejected):
        living.on_registration(code, -1)
    assert living.broker_epoch is None


@pytest.mark.parametrize(
    "code", [pytest.param(101, id="another incarnation lives"), pytest.param(7, id="anything else")]
)
def test_a_registration_that_is_refused_gives_no_epoch(code: int) -> None:
    living = a_broker()
    assert not living.on_registration(code, -1)
    assert living.broker_epoch is None


def test_it_asks_to_stay_fenced_until_it_is_ready_and_its_directories_are_known() -> None:
    living = a_registered_broker()
    assert living.wants_fence(is_settled=True)
    assert living.becomes_ready(is_caught_up=True)
    living.is_ready = True
    assert living.wants_fence(is_settled=False)
    assert not living.wants_fence(is_settled=True)
    assert not living.becomes_ready(is_caught_up=True)


def test_once_it_is_unfenced_it_beats_at_its_interval() -> None:
    living = a_registered_broker()
    assert living.on_heartbeat(0, is_fenced=False)
    assert living.wait_ms == INTERVAL_MS
    living.is_ready = True
    # What is to be told of directories later fences nobody.
    assert not living.wants_fence(is_settled=False)


@pytest.mark.parametrize("code", [77, 102])
def test_a_controller_that_does_not_know_the_epoch_makes_it_register_again(code: int) -> None:
    living = a_registered_broker()
    living.on_heartbeat(0, is_fenced=False)
    assert living.on_heartbeat(code, is_fenced=True)
    assert living.broker_epoch is None
    assert living.is_fenced
    assert living.previous_epoch == 7


def test_a_heartbeat_that_fails_for_another_reason_changes_nothing() -> None:
    living = a_registered_broker()
    living.on_heartbeat(0, is_fenced=False)
    assert not living.on_heartbeat(7, is_fenced=True)
    assert (living.broker_epoch, living.is_fenced) == (7, False)


@pytest.mark.parametrize(
    ("code", "told", "may_go"), [(0, False, False), (0, True, True), (77, False, True)]
)
def test_a_stopping_broker_may_end_when_it_is_allowed_or_not_registered(
    code: int, told: bool, may_go: bool
) -> None:
    assert a_registered_broker().may_go(code, should_shut_down=told) is may_go
