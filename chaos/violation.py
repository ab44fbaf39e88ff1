"""The failures of a run: a violated invariant, or a harness that has tested nothing."""


class Violation(AssertionError):
    """A violated invariant."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        """Its number, as in docs/chaos.md, or "liveness"."""


class HarnessError(AssertionError):
    """The run proves nothing: too few commits, or a planned fault never took effect."""


def require(holds: bool, rule: str, text: str) -> None:
    """Raise `Violation` unless it holds. If the text is expensive, test before the call."""
    if not holds:
        raise Violation(rule, text)


class Died(BaseException):
    """The end of a process. Not an `Exception`, so that no code in it can catch it as an error."""
