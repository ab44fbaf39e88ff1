"""The failures of a run: a violated invariant, or a harness that has tested nothing."""


class Violation(AssertionError):
    """Something that must always hold did not."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        """Its number, as in docs/chaos.md, or "liveness"."""


class HarnessError(AssertionError):
    """The run proves nothing: too little was committed, or a fault it was to have never came."""


def require(holds: bool, rule: str, text: str) -> None:
    """Raise `Violation` unless it holds. Where the text costs something, test before the call."""
    if not holds:
        raise Violation(rule, text)


class Died(BaseException):
    """A process ends here. Not an `Exception`: nobody in it can take this for an error."""
