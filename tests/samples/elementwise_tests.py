"""Samples of comparisons, logical and bitwise operations: nothing here has a gradient."""

from tests.samples import S, T

_COMPARISONS = "eq ne lt le gt ge not_equal less less_equal greater greater_equal".split()
_LOGICAL = "logical_and logical_or logical_xor".split()
_BITWISE = "bitwise_and bitwise_or bitwise_xor".split()
_KINDS = "isnan isinf isfinite isposinf isneginf isreal".split()
_I = T(2, 3, kind="int", low=-9, high=9)

ROWS = [
    *[S(name, T(2, 3), T(3), _grad=False) for name in _COMPARISONS],
    *[S(name, T(3, kind="int"), 1, _grad=False) for name in _COMPARISONS],
    *[S(name, T(2, 3, kind="bool"), T(3), _grad=False) for name in _LOGICAL],
    *[S(name, _I, T(3, kind="int", low=-9, high=9), _grad=False) for name in _BITWISE],
    *[S(name, T(3, kind="bool"), T(2, 1, kind="bool"), _grad=False) for name in _BITWISE],
    *[S(name, T(2, 3), _grad=False) for name in _KINDS],
    S("isreal", T(3, kind="complex"), _grad=False),
    S("eq", T(3, kind="complex"), T(3, kind="complex"), _grad=False),
    S("logical_not", T(3, kind="int"), _grad=False),
    S("bitwise_not", _I, _grad=False),
    S("bitwise_left_shift", _I, T(3, kind="int", low=0, high=4), _grad=False),
    S("bitwise_right_shift", _I, 2, _grad=False),
    S("isclose", T(2, 3), T(3), _grad=False),
    S("isclose", T(3, kind="int"), T(3, kind="int"), atol=1, equal_nan=True, _grad=False),
    S("allclose", T(2, 3), T(3), _grad=False, _vmap=False, _capture=False),
    S("equal", T(2, 3), T(3), _grad=False, _vmap=False, _capture=False),
    S("Tensor.eq_", T(2, 3), T(3), _grad=False),
    S("Tensor.__and__", T(3, kind="bool"), T(3, kind="bool"), _grad=False),
    S("Tensor.__rand__", T(3, kind="int"), 6, _grad=False),
    S("Tensor.__ror__", T(3, kind="int"), 6, _grad=False),
    S("Tensor.__rxor__", T(3, kind="int"), 6, _grad=False),
    S("Tensor.__lshift__", T(3, kind="int"), 2, _grad=False),
    S("Tensor.__rshift__", T(3, kind="int"), 1, _grad=False),
    S("Tensor.__invert__", T(3, kind="bool"), _grad=False),
]
