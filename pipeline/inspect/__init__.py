"""One episode for a person to look at: from its records and events to a timeline picture."""

import pipeline.stage  # noqa: F401  before anything loads NumPy: it fixes the number of threads
