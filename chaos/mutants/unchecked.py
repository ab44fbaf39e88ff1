"""The product's own checks of what it decides, out of the way: the judges are to notice.

Called in a process that runs a mutant, and nowhere else.
"""


def put_checks_out_of_the_way() -> None:
    """Let partitions be what they should not be."""
    # Not at the top: a fault is planted before anything of the product is imported.
    from statemachine.partitions import change_builder
    from statemachine.pending_decision import PendingDecision

    setattr(change_builder, "check_invariants", lambda *_, **__: None)  # noqa: B010
    setattr(PendingDecision, "check_epoch", lambda _: None)  # noqa: B010
