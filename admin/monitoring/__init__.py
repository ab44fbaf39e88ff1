"""Metrics and health of a node: the table of metrics, what a scrape collects, and the rules."""
