"""Replication between brokers: fetchers, replication quotas and progress reports."""
