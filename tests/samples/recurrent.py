"""Samples of recurrent cells and of layers over sequences."""

from __future__ import annotations

from tests.samples import S, T

ROWS = [
    S("rnn_tanh_cell", T(2, 3), T(2, 4), T(4, 3), T(4, 4), T(4), T(4)),
    S("lstm_cell", T(2, 3), [T(2, 2), T(2, 2)], T(8, 3), T(8, 2), T(8), T(8)),
    S("lstm_cell", T(3), [T(2), T(2)], T(8, 3), T(8, 2)),
    S("gru_cell", T(2, 3), T(2, 2), T(6, 3), T(6, 2), T(6), T(6)),
    S(
        "lstm", T(3, 1, 2), [T(1, 1, 2), T(1, 1, 2)], [T(8, 2), T(8, 2)],
        False, 1, 0.0, False, False, False,
    ),
    S("gru", T(3, 1, 2), T(2, 1, 1), [T(3, 2), T(3, 1)] * 2, False, 1, 0.0, False, True, False),
    S("rnn_relu", T(1, 3, 2), T(1, 1, 2), [T(2, 2), T(2, 2)], False, 1, 0.0, False, False, True),
]  # fmt: skip
