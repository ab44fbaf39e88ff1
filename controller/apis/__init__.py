"""ControllerApis: Kafka requests become commands and queries of the active controller."""
