"""The live view: a Spark stream over the logs, and a table of the replicas' positions."""
