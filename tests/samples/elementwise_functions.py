"""Samples of exponential, trigonometric, error and gamma functions."""

from tests.samples import S, T

_EVERYWHERE = "exp exp2 expm1 sigmoid sin cos sinh cosh tanh atan asinh sinc erf erfc i0".split()
_POSITIVE = "log log2 log10 log1p lgamma digamma".split()
_UNIT = "asin acos atanh tan erfinv".split()
_COMPLEX = """
    exp exp2 expm1 log log2 log10 log1p sigmoid sin cos tan sinh cosh tanh asin acos atan asinh
    acosh atanh sinc sqrt rsqrt reciprocal square
""".split()

ROWS = [
    *[S(name, T(2, 3)) for name in _EVERYWHERE],
    *[S(name, T(2, 3, kind="positive")) for name in _POSITIVE],
    *[S(name, T(2, 3, kind="unit")) for name in _UNIT],
    *[S(name, T(3, kind="complex", low=-0.8, high=0.8)) for name in _COMPLEX],
    S("exp", T()),
    S("exp", T(0, 2)),
    S("sin", T(3, kind="int"), _grad=False),
    S("arcsin", T(3, kind="unit")),
    S("arccosh", T(3, low=1.2, high=3)),
    S("acosh", T(3, low=1.2, high=3)),
    S("atan2", T(2, 3), T(3)),
    S("arctan2", T(3), T(2, 1)),
    S("hypot", T(2, 3), T(3)),
    S("logit", T(3, low=0.1, high=0.9)),
    S("logit", T(6, low=-0.5, high=1.5), eps=0.2),
    S("logaddexp", T(2, 3), T(3)),
    S("logaddexp", T(3, kind="complex"), T(3, kind="complex")),
    S("logaddexp2", T(2, 3), T(3)),
    S("xlogy", T(2, 3), T(3, kind="positive")),
    S("xlogy", 2.0, T(3, kind="positive")),
    S("xlogy", T(3), 2.5),
    S("polygamma", 1, T(3, kind="positive")),
    S("polygamma", 2, T(3, kind="positive")),
    S("Tensor.polygamma", T(3, kind="positive"), 0),
    S("mvlgamma", T(2, 3, low=2, high=4), 3),
    S("igamma", T(2, 3, kind="positive", grad=False), T(3, kind="positive")),
    S("igammac", T(2, 3, kind="positive", grad=False), T(3, kind="positive")),
    S("special.expit", T(3)),
    S("special.exp2", T(3)),
    S("special.expm1", T(3)),
    S("special.log1p", T(3, kind="positive")),
    S("special.logit", T(3, low=0.1, high=0.9), eps=0.05),
    S("special.sinc", T(3)),
    S("special.round", T(3), decimals=1),
    S("special.xlogy", T(3), T(3, kind="positive")),
    S("special.erf", T(3)),
    S("special.erfc", T(3)),
    S("special.erfinv", T(3, kind="unit")),
    S("special.psi", T(3, kind="positive")),
    S("special.digamma", T(3, kind="positive")),
    S("special.gammaln", T(3, kind="positive")),
    S("special.polygamma", 1, T(3, kind="positive")),
    S("special.multigammaln", T(3, low=2, high=4), 2),
    S("special.i0", T(3)),
    S("special.gammainc", T(3, kind="positive", grad=False), T(3, kind="positive")),
    S("special.gammaincc", T(3, kind="positive", grad=False), T(3, kind="positive")),
]
