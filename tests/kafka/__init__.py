"""A real Kafka broker as the judge."""
