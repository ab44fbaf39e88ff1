"""The error for input that a user can put right."""


class InvalidInput(ValueError):
    """Paths or options that cannot be used; the message names them and says what would be right."""
