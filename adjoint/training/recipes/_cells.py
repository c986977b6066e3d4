"""Cells of a table as people write them: numbers, with what stands beside them, and days."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

ABSENT = frozenset(("", "na", "n/a", "nan", "null", "none", "-", "?"))  # where a number should be
GROUPS = {
    ".": re.compile(r"[-+]?[1-9]\d{0,2}((,\d{3})+\.\d*|(,\d{3}){2,})"),  # 1,250 may be 1.25
    ",": re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
GROUPED = {".": re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"), ",": GROUPS[","]}
UNIT = re.compile(r"[-+]?\d[\d.,]*\s+([^\W\d_][^\d\s]*)")  # 65 m²
DAY = re.compile(r"\d{1,4}[-./ ]|\d{8}|[A-Z][a-z]{2,8}\.? \d")  # how a day may begin
TIMES = ("", " %H:%M", " %H:%M:%S")
FORMS = ("%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
SLASHED = {"day/month": ("%d/%m/%Y", "%d/%m/%y"), "month/day": ("%m/%d/%Y", "%m/%d/%y")}


def number(cell: str, decimal: str = ".", grouped: bool = False) -> float | None:
    """The finite number that a cell holds."""
    if grouped:
        if GROUPED[decimal].fullmatch(cell.strip()):
            cell = cell.replace("," if decimal == "." else ".", "")
        elif ("," if decimal == "." else ".") in cell:
            return None
    if decimal != ".":
        cell = cell.replace(decimal, ".")
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_grouped(cells: Sequence[str], decimal: str, said: bool = False) -> bool:
    """Whether thousands are set apart: some cells can be read only so, and no other speaks against.

    `--decimal ,` says that a point is none, so 1.250 is such a cell, unless 98.5 is there too; and
    `--decimal .`, if it was `said`, that 1,250 is one.
    """
    mark = "," if decimal == "." else "."
    marked = [cell.strip() for cell in cells if mark in cell]
    form = (GROUPED if said else GROUPS)[decimal]
    sure = sum(form.fullmatch(cell) is not None for cell in marked)
    return sure > 0 and all(
        GROUPED[decimal].fullmatch(cell) for cell in marked if number(cell, decimal) is not None
    )


def mark_of(cells: Sequence[str]) -> str:
    """What stands beside the numbers: % or a currency of most, or a word after each, as in 65 m².

    >>> mark_of(["$5.00", "-$7", "free"]), mark_of(["65 m²", "7 m²", ""]), mark_of(["3 am", "4 pm"])
    ('$', 'm²', '')
    """
    there = [cell.strip() for cell in cells if cell.strip().lower() not in ABSENT]
    signs = Counter(sign for cell in there for sign in dict.fromkeys(filter(is_sign, cell)))
    if signs and signs.most_common(1)[0][1] > len(there) / 2:
        return signs.most_common(1)[0][0]
    words = {parts[1] if (parts := UNIT.fullmatch(cell)) else "" for cell in there}
    return words.pop() if len(words) == 1 else ""


def is_sign(character: str) -> bool:
    """Whether a character is % or a currency's."""
    return character == "%" or unicodedata.category(character) == "Sc"


def without_mark(cell: str, mark: str) -> str | None:
    """A cell without what stands beside its number; None if it is not there.

    >>> without_mark("-$5", "$"), without_mark("5 $", "$"), without_mark("5", "$")
    ('-5', '5', None)
    """
    before, there, after = (part.strip() for part in cell.partition(mark))
    both = any(map(str.isdigit, before)) and any(map(str.isdigit, after))
    return before + after if there and not both else None


def day(cell: str, slashed: str = "") -> float | None:
    """The day that a cell names, 2024-12-31, 31.12.2024 or 31 Dec 2024, with or without a time.

    Days with slashes are read only where it is known which number is the month: as
    "day/month" or "month/day".
    """
    text = cell.strip()
    if not DAY.match(text):  # the forms below take long to say so
        return None
    moment = None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        for form in (*FORMS, *SLASHED.get(slashed, ())):
            for time in TIMES:
                try:
                    moment = moment or datetime.strptime(text, form + time)
                except ValueError:
                    continue
    if moment is None:
        return None
    return moment.toordinal() + (moment.hour * 3600 + moment.minute * 60 + moment.second) / 86400
