"""Text files that people write, with a bound on their size."""

from pathlib import Path
from typing import IO


def read_text(path: Path, bytes_max: int) -> str:
    """Return the text of a file that a person has written; raises `ValueError`."""
    try:
        with path.open("rb") as file:
            return read_stream(file, str(path), bytes_max)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def read_stream(stream: IO[bytes], name: str, bytes_max: int) -> str:
    """Return the text of a stream to its end; raises `ValueError`, which calls it `name`."""
    content = stream.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"{name} is larger than {bytes_max} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8 text: byte {error.start} is wrong") from None
