"""The admin client: typed requests to the nodes of a cluster, retried until one of them answers."""
