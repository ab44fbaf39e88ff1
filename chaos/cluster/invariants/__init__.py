"""The invariants of partitions (P1 to P22), checked from committed records and disks."""
