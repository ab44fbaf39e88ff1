"""The invariants of the quorum (R1 to R32, R34), checked from the wire and the disks."""
