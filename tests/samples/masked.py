"""Samples of masked reductions and normalisations."""

from tests.samples import S, T

MASK = T(2, 3, kind="bool")
X = T(2, 3)
DISTINCT = T(2, 3, kind="distinct")

ROWS = [
    S("masked.sum", X, 1, mask=MASK),
    S("masked.sum", X),
    S("masked.prod", X, (0, 1), keepdim=True, mask=MASK),
    S("masked.cumsum", X, 1, mask=MASK),
    S("masked.cumprod", X, 0, mask=MASK),
    S("masked.amax", DISTINCT, mask=MASK),
    S("masked.amin", DISTINCT, mask=T(3, kind="bool")),
    S("masked.argmax", DISTINCT, 1, mask=MASK),
    S("masked.argmin", DISTINCT, mask=MASK),
    S("masked.mean", X, mask=MASK),
    S("masked.mean", X, 1),
    S("masked.median", DISTINCT, 1),
    S("masked.logsumexp", X, mask=MASK),
    S("masked.logaddexp", X, X),
    S("masked.norm", X, 2, mask=MASK),
    S("masked.normalize", X, 2.0, 1),
    S("masked.var", T(2, 6), mask=T(2, 6, kind="bool")),
    S("masked.std", X, 1, unbiased=True),
    S("masked.softmax", X, 1),
    S("masked.log_softmax", X, 0),
    S("masked.softmin", X, 1),
]
