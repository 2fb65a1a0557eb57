"""A discrete-event simulator of batched inference, with an interface for learned policies."""
