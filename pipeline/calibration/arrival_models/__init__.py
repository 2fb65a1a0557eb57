"""Models of the arrivals of a log, chosen by their likelihood on a later part of it."""
