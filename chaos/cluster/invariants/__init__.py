"""The invariants of partitions (P1 to P22, P24), checked from committed records and disks."""
