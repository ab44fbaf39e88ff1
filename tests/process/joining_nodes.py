"""Controllers that find each other: single processes, each with the settings a test gives it."""

from typing import Final

HOST: Final = "127.0.0.1"
WITHIN_SECONDS: Final = 30.0
