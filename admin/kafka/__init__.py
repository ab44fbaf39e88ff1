"""Front door 1: the Kafka protocol of a controller. It translates, and decides nothing.

A request of Kafka becomes a command or a query of the service layer, the answer becomes Kafka's
again. What a node that is not the active controller is asked, it passes on in an Envelope.
"""
