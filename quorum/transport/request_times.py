"""The times of the requests of a listener, from the arrival of each to its answer."""

from quorum.histogram import REQUEST_SECONDS, Histogram


class RequestTimes:
    """A histogram for each API; only APIs that the listener offers have one."""

    __slots__ = ("of_api",)

    def __init__(self) -> None:
        self.of_api: dict[int, Histogram] = {}

    def observe(self, api_key: int, seconds: float) -> None:
        """Count a request that has been answered."""
        found = self.of_api.get(api_key)
        if found is None:
            found = self.of_api[api_key] = Histogram(REQUEST_SECONDS)
        found.observe(seconds)
