"""The one way in which a run ends early."""


class RunFailed(Exception):
    """The run is worthless, or cannot begin; the message says why."""
