"""The clients of Kafka that work, call by call, found out by asking real clusters."""
