"""The features of a cluster and their levels (KIP-584, KIP-1022)."""
