"""Service models: how long a replica takes for a batch."""
