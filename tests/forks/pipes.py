"""What both ends of the pipe to a process that forks agree on: a JSON list a line.

It asks for `[stdin, program, *arguments]` and is answered `[exit code, stdout, stderr]`.
"""

from typing import Final

BYTES_AS: Final = "latin-1"
"""How bytes are written as text: each is a character."""
