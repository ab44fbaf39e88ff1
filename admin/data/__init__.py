"""A small client for the records themselves: `Producer` writes, `Reader` reads.

It serves `metaquorum produce` and `consume`, the demo and tests. It has no consumer groups, no
transactions and no compression; who needs those uses one of Kafka's clients.
"""
