"""Samples of window functions."""

from tests.samples import S

_NAMES = "bartlett blackman cosine exponential gaussian general_hamming hamming hann kaiser nuttall"

ROWS = [
    *(
        S(f"{name}_window", *args, _grad=False)
        for name in ("hann", "hamming", "bartlett", "blackman", "kaiser")
        for args in ((0,), (1,), (6,), (5, False))
    ),
    *(
        S(f"signal.windows.{name}", length, sym=sym, _grad=False)
        for name in _NAMES.split()
        for length, sym in ((0, True), (1, False), (6, False), (7, True))
    ),
    S("signal.windows.general_cosine", 6, a=[0.4, 0.3, 0.3], _grad=False),
    S("signal.windows.exponential", 6, center=2.0, tau=1.5, sym=False, _grad=False),
    S("signal.windows.gaussian", 6, std=2.0, _grad=False),
    S("kaiser_window", 6, beta=4.0, _grad=False),
    S("hamming_window", 6, True, 0.6, 0.4, _grad=False),
]
