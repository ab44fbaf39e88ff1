"""The moment from which a controller has what is committed, and may let clients log in."""

from dataclasses import dataclass, field
from typing import cast

from controller.authorization import Loaded
from controller.quorum_controller import QuorumController


@dataclass
class Image:
    """As much of an image as counts."""

    level: int = 0
    end_offset: int = 0


@dataclass
class Controller:
    """A controller that a test moves on."""

    image: Image = field(default_factory=Image)
    committed: int = 0
    is_ready: bool = True


def loaded(controller: Controller, high_watermark: int | None) -> Loaded:
    return Loaded(cast(QuorumController, controller), lambda: high_watermark)


def test_a_controller_waits_for_all_that_was_committed_when_it_started() -> None:
    controller = Controller(Image(level=20, end_offset=50), committed=50)
    assert not loaded(controller, None)()
    is_loaded = loaded(controller, 100)
    assert not is_loaded()
    controller.committed = controller.image.end_offset = 99
    assert not is_loaded()
    controller.committed = controller.image.end_offset = 100
    assert is_loaded()
    controller.committed = 0
    assert is_loaded()


def test_a_new_cluster_has_no_users_before_its_founding_records_are_committed() -> None:
    """The first leader commits the record of its lead before it appends the founding records."""
    controller = Controller(Image(level=0, end_offset=1), committed=1)
    is_loaded = loaded(controller, 1)
    assert not is_loaded()
    controller.image.level, controller.image.end_offset = 20, 12
    assert not is_loaded()
    controller.image.end_offset, controller.committed = 15, 11
    assert not is_loaded()
    controller.committed = 12
    assert is_loaded()
