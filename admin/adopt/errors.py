"""Why the metadata of a cluster cannot be taken over. Nothing here acts."""


class AdoptError(Exception):
    """One sentence, or one for each thing that is wrong: what, and what would be right."""
