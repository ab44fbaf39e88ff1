"""Planner: propose replica assignments. Pure functions of a cluster survey.

The same survey and request give the same plan. A long computation is a generator that yields after
at most a few milliseconds of work.

Limits: 100,000 partitions on 1,000 brokers, see `limits.PLANNED_PARTITIONS_MAX`.
"""
