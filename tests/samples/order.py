"""Samples of scans, sorting, searching and counting."""

from typing import Any

from tests.samples import S, T

DISTINCT = T(3, 4, kind="distinct")
SORTED = T(1, kind="int")


def constant(path: str, *args: Any, **kwargs: Any) -> S:
    """A call whose results do not depend smoothly on anything."""
    return S(path, *args, _grad=False, **kwargs)


def by_value(path: str, *args: Any, **kwargs: Any) -> S:
    """A call the shape of whose result depends on values."""
    return S(path, *args, _grad=False, _vmap=False, _capture=False, **kwargs)


ROWS = [
    S("cumsum", T(2, 3), 1),
    S("cumsum", T(), 0),
    S("cumsum", T(2, 3, kind="int"), -1, _grad=False),
    S("Tensor.cumsum_", T(2, 3), 0, _grad=False),
    S("cumprod", T(2, 4), 1),
    S("cumprod", T(3, 2, kind="complex"), 0),
    S("cumprod", T(4, kind="int", low=0, high=3), 0, _grad=False),
    S("logcumsumexp", T(2, 4), 1),
    S("logcumsumexp", T(4, 2), 0),
    S("logcumsumexp", T(4, kind="complex"), 0),
    S("cummax", DISTINCT, 1),
    S("cummin", DISTINCT, 0),
    S("diff", T(2, 4)),
    S("diff", T(2, 4), 2, 0, T(1, 4), T(2, 4)),
    S("diff", T(2, 4, kind="bool"), _grad=False),
    S("trapezoid", T(2, 4)),
    S("trapezoid", T(2, 4), T(4)),
    S("trapz", T(2, 4), dx=0.5, dim=0),
    S("cumulative_trapezoid", T(2, 4), T(2, 4)),
    S("cumulative_trapezoid", T(2, 4), dx=2.0, dim=0),
    S("gradient", T(4, 3)),
    S("gradient", T(4), spacing=2.0, edge_order=2),
    S("gradient", T(4, 3), spacing=[T(4, kind="distinct", grad=False)], dim=0),
    S("sort", DISTINCT),
    S("sort", DISTINCT, 0, descending=True, stable=True),
    S("sort", T(kind="distinct")),
    S("argsort", DISTINCT, dim=0, descending=True),
    S("msort", DISTINCT),
    S("topk", DISTINCT, 2),
    S("topk", DISTINCT, 2, 0, largest=False),
    S("topk", T(2, 100, kind="distinct"), 3),
    S("kthvalue", DISTINCT, 2),
    S("kthvalue", DISTINCT, 1, 0, keepdim=True),
    S("median", DISTINCT),
    S("median", DISTINCT, 1),
    S("nanmedian", DISTINCT),
    S("nanmedian", DISTINCT, 0, keepdim=True),
    S("mode", DISTINCT),
    S("mode", T(3, 4, kind="int"), 0, keepdim=True, _grad=False),
    S("quantile", DISTINCT, 0.3),
    S("quantile", DISTINCT, 0.6, dim=1, keepdim=True),
    S("quantile", DISTINCT, 0.6, dim=0, interpolation="midpoint"),
    S("quantile", DISTINCT, T(3, kind="positive", high=1.0, grad=False), dim=0),
    S("nanquantile", DISTINCT, 0.25, dim=1, interpolation="nearest"),
    S("nanquantile", DISTINCT, 0.25, dim=-1),
    constant("searchsorted", T(4, kind="int", low=3, high=4), T(2, 3, kind="int", high=9)),
    constant("searchsorted", T(2, 4, kind="int", low=1, high=2), T(2, 3, kind="int"), right=True),
    constant("searchsorted", SORTED, 0, side="right", out_int32=True),
    constant("bucketize", T(2, 3, kind="int", high=9), T(4, kind="int", low=3, high=4)),
    constant("isin", T(2, 3, kind="int"), T(2, kind="int")),
    constant("isin", T(2, 3, kind="int"), 1, invert=True),
    constant("histc", T(9), 4),
    constant("histc", T(9), bins=3, min=-1, max=1),
    constant("histogram", T(9), 4),
    constant("histogram", T(9), 3, range=(-1.0, 1.0), weight=T(9), density=True),
    constant("histogramdd", T(9, 2), [2, 3]),
    constant("hash_tensor", T(2, 3), 1, keepdim=True),
    constant("hash_tensor", T(6, kind="int", low=0, high=4)),
    by_value("unique", T(6, kind="int"), return_inverse=True, return_counts=True),
    by_value("unique", T(4, 2, kind="int", low=0, high=2), dim=0),
    by_value("unique_consecutive", T(6, kind="int"), return_counts=True),
    by_value("bincount", T(6, kind="int", low=0, high=4), minlength=2),
    by_value("bincount", T(6, kind="int", low=0, high=4), T(6)),
]
