"""Partition data on disk: folders, logs, the disk thread, batch validation and producer state."""
