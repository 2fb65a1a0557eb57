"""Calibrates continuous batching from a log of requests with token times, and predicts with it."""
