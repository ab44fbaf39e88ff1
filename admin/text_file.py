"""Text files that people write, with a bound on their size."""

from pathlib import Path


def read_text(path: Path, bytes_max: int) -> str:
    """Return the text of a file that a person has written; raises `ValueError`."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > bytes_max:
        raise ValueError(f"{path} is larger than {bytes_max} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: byte {error.start} is wrong") from None
