"""The fields of an expression, and how one term of a field becomes values."""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, NamedTuple

from detent.model.cron.hints import advice

SHOWN: Final = 40
"""A refusal shows so many characters of a value."""


def _names(*names: str) -> dict[str, int]:
    return {word: number for number, name in enumerate(names) for word in (name, name[:3])}


WEEKDAY_NAMES: Final = _names(
    "SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"
)
MONTH_NAMES: Final = {
    word: number + 1
    for word, number in _names(
        *("JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY"),
        *("AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"),
    ).items()
}
_HASHED: Final = re.compile(r"H(?:\((\w+)-(\w+)\))?")
_DIGITS: Final = re.compile(r"[0-9]+")


class Field(NamedTuple):
    """One of the fields: what it may hold."""

    name: str
    low: int
    high: int
    valid: str
    hashed_high: int
    """`H` chooses from `low` up to here."""
    cycle: int = 0
    """After so many values a range begins anew: 22-2 in the hours. 0 where no range may."""
    names: Mapping[str, int] = MappingProxyType({})

    def wrong(self, term: str, why: str = "") -> ValueError:
        """Return the refusal of a value: with the reason, or with what would be valid."""
        value = shown(term)
        if not why:
            hint = advice(self.name, term.upper())
            why = f"must be made of {self.valid}, with * , - and /{f'; {hint}' if hint else ''}"
        return ValueError(f"{self.name} {value!r} {why}")

    def number(self, text: str, term: str) -> int:
        """Return the value of a number or a name."""
        if text in self.names:
            return self.names[text]
        # Digits are those of ASCII, and few enough to be a number of a clock.
        if not (text.isascii() and _DIGITS.fullmatch(text) and self.low <= int(text) <= self.high):
            raise self.wrong(term)
        return int(text)

    def span(self, first_text: str, last_text: str, term: str) -> Sequence[int]:
        """Return the values from one to another, also those of a range that wraps around."""
        first, last = self.number(first_text, term), self.number(last_text, term)
        if first <= last:
            return range(first, last + 1)
        if not self.cycle:
            ways = f"{last}-{first}, or {first}-{self.high},{self.low}-{last} to go over the end"
            if term.upper().startswith("H"):
                ways = f"H({last}-{first})"
            raise self.wrong(term, f"runs backwards; write {ways}")
        return range(first, last + self.cycle + 1)

    def values(self, term: str, name: str) -> set[int]:
        """Return the values of a term: `*`, `5`, `1-5`, `*/15`, `H`; `H` is chosen by a name."""
        body, slash, text = term.upper().partition("/")
        step = self._step(text, term) if slash else 1
        found: Sequence[int]
        if hashed := _HASHED.fullmatch(body):
            found = self._chosen(hashed, step if slash else None, term, name)
        elif body == "*":
            found = range(self.low, self.high + 1)[::step]
        elif "-" in body:
            first_text, _, last_text = body.partition("-")
            found = self.span(first_text, last_text, term)[::step]
        else:
            first = self.number(body, term)
            found = range(first, self.high + 1)[::step] if slash else (first,)
        if not self.cycle:
            return set(found)
        return {self.low + (value - self.low) % self.cycle for value in found}

    def _step(self, text: str, term: str) -> int:
        if not (text.isascii() and _DIGITS.fullmatch(text)):
            raise self.wrong(term)
        return self._at_most(int(text), self.high - self.low + 1, term)

    def _at_most(self, step: int, most: int, term: str) -> int:
        if not 1 <= step <= most:
            raise ValueError(f"step {shown(term)!r} of {self.name} must be 1 to {most}")
        return step

    def _chosen(
        self, hashed: re.Match[str], step: int | None, term: str, name: str
    ) -> Sequence[int]:
        """Return what stands for `H`, `H/15` or `H(0-29)`: spread over names, fixed for each."""
        choice: Sequence[int] = range(self.low, self.hashed_high + 1)
        if hashed[1] is not None:
            choice = self.span(hashed[1], hashed[2], term)
        digest = blake2b(f"{self.name} {name}".encode("utf-8", "replace"), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        if step is None:
            return (choice[number % len(choice)],)
        return choice[number % self._at_most(step, len(choice), term) :: step]


SECOND: Final = Field("second", 0, 59, "0-59", 59)
MINUTE: Final = Field("minute", 0, 59, "0-59", 59)
HOUR: Final = Field("hour", 0, 23, "0-23", 23, 24)
# Every month has a 28th.
DAY_OF_MONTH: Final = Field(
    "day-of-month", 1, 31, "1-31, L (the last day), L-3, 15W (the nearest weekday) or LW", 28
)
MONTH: Final = Field("month", 1, 12, "1-12 or JAN-DEC", 12, 12, MONTH_NAMES)
DAY_OF_WEEK: Final = Field(
    *("day-of-week", 0, 7, "0-7 or SUN-SAT, FRIL (the last Friday) or MON#2 (the second Monday)"),
    *(6, 7, WEEKDAY_NAMES),
)


def shown(text: str) -> str:
    """Return a text that fits into a refusal."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
