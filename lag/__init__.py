"""Lag reports: read quorum logs with Spark and report who was behind."""
