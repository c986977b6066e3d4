"""The status of a program: which of its checks failed, and on what number.

The low bits are the fault's code, 1 or more; the rest is the number that was wrong (an index, a
class), one of them where there are several. Both are one word, so that workers that fail at the
same time cannot mix theirs up.
"""

from __future__ import annotations

CODE_BITS = 24
LEAST = -(1 << 63)  # with a code: a number too large to be shown


def read_status(status: int) -> tuple[int, int | None]:
    """(code, number) of a status; the number is 0 where the check was about none.

    >>> read_status(3 | 7 << CODE_BITS), read_status(3 | -5 << CODE_BITS), read_status(3 | LEAST)
    ((3, 7), (3, -5), (3, None))
    """
    number = status >> CODE_BITS
    return status & (1 << CODE_BITS) - 1, None if number == LEAST >> CODE_BITS else number
