"""Exceptions for malformed bytes from the network, each with a reason."""

from quorum.protocol.apis import api_name


class BadFrame(Exception):
    """A frame announces a length that cannot be accepted: the stream is of no more use."""


class Malformed(Exception):
    """The bytes are not a message of this API and version; `reason` says where they differ."""

    def __init__(self, api_key: int, version: int, reason: str) -> None:
        super().__init__(f"{api_name(api_key)} v{version}: {reason}")
        self.reason = reason
