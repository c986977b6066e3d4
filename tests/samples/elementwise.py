"""Samples of elementwise operations."""

from tests.samples import S, T

ROWS = [
    S("add", T(2, 3), T(3), alpha=2),
    S("mul", T(2, 3), T(2, 1)),
    S("exp", T(2, 3)),
    S("where", T(2, 3, kind="bool"), T(3), T(2, 3)),
]
