"""Topics: creation, deletion, more partitions, replica placement."""
