"""One partition on one broker: assignment, leader and follower state, waiting Produce requests."""
