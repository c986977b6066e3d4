"""Samples of indexing, gathering and scattering."""

from typing import Any

from tests.samples import S, T


def I(*shape: int, high: int) -> T:  # noqa: E743  an index: integers in [0, high)
    return T(*shape, kind="int", low=0, high=high)


def B(*shape: int) -> T:
    return T(*shape, kind="bool")


SELECTED = {"_vmap": False, "_capture": False}  # the result's shape depends on values
ALL: Any = slice(None)

ROWS = [
    # basic
    S("Tensor.__getitem__", T(4, 3), 1),
    S("Tensor.__getitem__", T(4, 3), slice(1, 3)),
    S("Tensor.__getitem__", T(4, 3), (ALL, -1)),
    S("Tensor.__getitem__", T(4, 3, 2), (..., None, slice(0, 2, 2))),
    S("Tensor.__getitem__", T(4, 3, 2), (slice(3, 1), None, 0)),
    S("Tensor.__getitem__", T(), (...,)),
    S("Tensor.__getitem__", T(2, 3), True, _vmap=False, _capture=False),
    # integer tensors
    S("Tensor.__getitem__", T(4, 3), I(5, high=4)),
    S("Tensor.__getitem__", T(4, 3), I(high=4)),
    S("Tensor.__getitem__", T(4, 3), [0, 2]),
    S("Tensor.__getitem__", T(4, 3), (ALL, [[0, 2], [1, 1]])),
    S("Tensor.__getitem__", T(4, 3, 2), (I(2, 1, high=4), I(3, high=3))),
    S("Tensor.__getitem__", T(4, 3, 2), (I(2, high=4), ALL, I(2, high=2))),
    S("Tensor.__getitem__", T(4, 3, 2), (ALL, I(2, high=3), I(2, high=2))),
    S("Tensor.__getitem__", T(4, 3, 2), (0, ALL, I(3, high=2))),
    S("Tensor.__getitem__", T(4, 3, 2), (I(2, high=4), ALL, I(high=2))),
    S("Tensor.__getitem__", T(4, 3, 2), (I(2, high=4), None, I(2, high=3))),
    S("Tensor.__getitem__", T(4, 3), (slice(1, 3), I(0, high=3))),
    # masks
    S("Tensor.__getitem__", T(4, 3), B(4, 3), **SELECTED),
    S("Tensor.__getitem__", T(4, 3), B(4), **SELECTED),
    S("Tensor.__getitem__", T(2, 4, 3), (ALL, B(4), 1), **SELECTED),
    S("Tensor.masked_select", T(4, 3), B(3), **SELECTED),
    S("masked_scatter", T(4, 3), B(4, 3), T(14)),
    S("Tensor.masked_scatter_", T(4, 3), B(3), T(3, 5)),
    S("nonzero", T(4, 3, kind="int", low=0, high=2), _grad=False, **SELECTED),
    S("nonzero", B(4, 3), as_tuple=True, _grad=False, **SELECTED),
    S("nonzero", B(), as_tuple=True, _grad=False, **SELECTED),
    S("argwhere", B(5), _grad=False, **SELECTED),
    S("where", B(3, 2), _grad=False, **SELECTED),
    S("nonzero_static", B(4, 3), size=5, fill_value=-7, _grad=False),
    S("unravel_index", I(5, high=24), (2, 3, 4), _grad=False),
    # putting
    S("index_put", T(4, 3), (I(1, high=4),), T(3)),
    S("index_put", T(4, 3), (I(5, high=4),), T(5, 3), accumulate=True),
    S("index_put", T(4, 3), (I(5, high=4), I(5, high=3)), T(), accumulate=True),
    S("Tensor.index_put_", T(4, 3), (I(5, high=4), I(5, high=3)), T(5), True),
    S("Tensor.index", T(4, 3), (None, I(2, high=3))),
    S("index_select", T(4, 3), -1, I(5, high=3)),
    S("index_select", T(), 0, I(1, high=1)),
    S("index_add", T(4, 3), 0, I(5, high=4), T(5, 3), alpha=2.5),
    S("Tensor.index_add_", T(4, 3), 1, I(2, high=3), T(4, 2)),
    S("index_add", T(), 0, I(1, high=1), T()),
    S("index_copy", T(4, 3), 1, I(1, high=3), T(4, 1)),
    S("index_fill", T(4, 3), 1, I(2, high=3), 2.0),
    S("index_fill", T(4, 3), 0, I(5, high=4), T()),
    S("index_reduce", T(4, 3), 0, I(5, high=4), T(5, 3), "prod"),
    S("index_reduce", T(4, 3), 1, I(5, high=3), T(4, 5), "amax", include_self=False),
    S("index_reduce", T(4, 3), 0, I(5, high=4), T(5, 3), "mean"),
    S("take", T(4, 3), I(2, 2, high=12)),
    S("put", T(4, 3), I(6, high=12), T(6), accumulate=True),
    S("take_along_dim", T(4, 3), I(1, 2, high=3), 1),
    S("take_along_dim", T(4, 3), I(5, high=12)),
    # along a dimension
    S("gather", T(4, 3), 0, I(2, 3, high=4)),
    S("gather", T(4, 3), -1, I(3, 5, high=3)),
    S("gather", T(), 0, I(high=1)),
    S("gather", T(4, 3), 0, I(0, 3, high=4)),
    S("scatter", T(4, 3), 1, I(3, 1, high=3), T(4, 2)),
    S("scatter", T(4, 3), 0, I(1, 3, high=4), 1.5),
    S("Tensor.scatter_", T(4, 3), 0, I(2, 3, high=4), T(2, 3), reduce="add"),
    S("scatter", T(4, 3), 0, I(2, 3, high=4), T(2, 3), reduce="multiply"),
    S("scatter_add", T(4, 3), 0, I(6, 3, high=4), T(6, 3)),
    S("scatter_add", T(4, 3), 1, I(4, 5, high=3), T(4, 6)),
    S("scatter_reduce", T(4, 3), 0, I(6, 3, high=4), T(6, 3), "sum", include_self=False),
    S("scatter_reduce", T(4, 3), 0, I(6, 3, high=4), T(6, 3), "prod"),
    S("scatter_reduce", T(4, 3), 0, I(6, 3, high=4), T(6, 3), "prod", include_self=False),
    S("scatter_reduce", T(4, 3), 1, I(4, 5, high=3), T(4, 5), "mean"),
    S("scatter_reduce", T(4, 3), 1, I(4, 5, high=3), T(4, 5), "mean", include_self=False),
    S("scatter_reduce", T(4, 3), 0, I(6, 3, high=4), T(6, 3), "amax"),
    S("scatter_reduce", T(4, 3), 0, I(6, 3, high=4), T(6, 3), "amin", include_self=False),
    # filling
    S("fill", T(2, 3), T()),
    S("fill", T(2, 3), 1.5),
    S("Tensor.fill_", T(2, 3), T()),
    S("Tensor.zero_", T(2, 3)),
    S("Tensor.copy_", T(2, 3), T(3)),
    S("Tensor.fill_diagonal_", T(3, 3), 2.0),
    S("Tensor.fill_diagonal_", T(7, 2), 2.0, wrap=True),
]
