"""Discovery of the other nodes: DiscoverBrokers (KIP-595) spreads the address of every node."""
