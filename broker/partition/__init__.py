"""One partition on one broker: its assignment, the leader's state and the follower's state."""
