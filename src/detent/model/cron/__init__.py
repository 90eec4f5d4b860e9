"""Cron expressions as one set of values per field; firing, words and refusals use the same sets."""

from detent.model.cron.expression import CronExpression
from detent.model.cron.reading import parse_cron
from detent.model.cron.words import describe

__all__ = ["CronExpression", "describe", "parse_cron"]
