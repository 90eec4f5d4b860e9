"""Aligned plain tables: the first column to the left, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence

from bench.results import Spread


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = [
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  " + "  ".join([first, *rest]).rstrip()

    rule = "  " + "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *(line(row) for row in rows)])


def number(value: float, digits: int = 0) -> str:
    return f"{value:,.{digits}f}"


def middle(spread: Spread | None, digits: int = 0, unit: float = 1.0) -> str:
    return "-" if spread is None else number(spread.middle / unit, digits)


def whole(spread: Spread | None, digits: int = 0) -> str:
    """The median with its smallest and largest value; a single value stands alone."""
    if spread is None or spread.low == spread.high:
        return middle(spread, digits)
    low, high = number(spread.low, digits), number(spread.high, digits)
    return f"{number(spread.middle, digits)} ({low}-{high})"
