"""The exception that ends a run early."""


class RunFailed(Exception):
    """The run cannot start, or its figures are invalid; the message gives the reason."""
