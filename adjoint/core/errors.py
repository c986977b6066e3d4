"""Exceptions with a name of their own."""

from __future__ import annotations


class LinAlgError(RuntimeError):
    """A linear-algebra operation met a matrix it cannot treat, such as a singular one.

    linalg.inv(zeros(2, 2))       # raises
    linalg.inv_ex(zeros(2, 2))    # does not: the second result says which matrices failed
    """
