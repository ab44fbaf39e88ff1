"""Moves: which partitions get other replicas, in which steps, how many at a time, how fast."""
