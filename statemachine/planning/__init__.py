"""Plans: which replicas should be where. They propose, and change nothing.

Every plan is a pure function of what it is given: who asks twice is answered alike. What takes long
is a generator that yields after at most a few milliseconds of work, and returns the plan.

Stated for 100,000 partitions on 1,000 brokers: see `limits.PLANNED_PARTITIONS_MAX`.
"""
