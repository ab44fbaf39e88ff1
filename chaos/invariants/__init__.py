"""The invariants of the quorum (R1 to R30), checked from the wire and the disks."""
