"""What a log is worth: its rows, its clock, what is in it, and what it can and cannot calibrate."""

from pipeline.quality.source import SourceQuality, source_quality
from pipeline.quality.words import quality_in_words

__all__ = ["SourceQuality", "quality_in_words", "source_quality"]
