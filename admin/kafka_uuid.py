"""Kafka's way of writing a uuid: 22 characters of URL-safe base64 without padding."""

import base64
from uuid import UUID


def show_uuid(uuid: UUID) -> str:
    """`uuid` as Kafka's tools print it; the zero uuid is 22 times A."""
    return base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """The uuid that `text` stands for; `ValueError` when it is none."""
    raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not 22 characters of base64, which a uuid has")
    return UUID(bytes=raw)
