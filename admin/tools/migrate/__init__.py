"""Live migration of a KRaft cluster between Kafka's controllers and ours, in both directions.

`planner` and `findings` have the rules, as pure functions over the values of `state`; `guide` has
the texts. `observation` asks the cluster, `log_reader` reads its metadata log, and `executor`
carries out one step after the other.
"""
