"""Operators of the domain ai.onnx.ml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value, array_of, integers, value_of

_DOMAIN = "ai.onnx.ml"


@operator("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(x: Tensor, y: Value) -> Tensor:
    """Columns of the last dimension."""
    taken = ad.index_select(x, x.ndim - 1, ad.tensor(integers(y), dtype=ad.int64))
    return taken.reshape(1, -1) if x.ndim == 1 else taken


@operator("Binarizer", domain=_DOMAIN)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """One above a threshold, else zero."""
    return (x > threshold).to(x.dtype)


@operator("LabelEncoder", domain=_DOMAIN)
def label_encoder(
    x: Value,
    *,
    keys_floats: Any = None,
    keys_int64s: Any = None,
    keys_strings: Any = None,
    keys_tensor: Value = None,
    values_floats: Any = None,
    values_int64s: Any = None,
    values_strings: Any = None,
    values_tensor: Value = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Value = None,
) -> Value:
    """Labels by a table."""
    keys = keys_floats or keys_int64s or keys_strings
    keys = list(np.asarray(array_of(keys_tensor)).ravel()) if keys is None else keys
    kind: Any
    if values_tensor is not None:
        values = np.asarray(array_of(values_tensor)).ravel()
        kind = values.dtype
        default = (
            np.asarray(array_of(default_tensor)).reshape(-1)[0]
            if default_tensor is not None
            else {"O": default_string, "f": default_float}.get(kind.kind, default_int64)
        )
    else:
        values, default, kind = next(
            (v, d, k)
            for v, d, k in (
                (values_floats, default_float, np.float32),
                (values_int64s, default_int64, np.int64),
                (values_strings, default_string, object),
            )
            if v is not None
        )
    table = dict(zip([_key(k) for k in keys], values, strict=True))
    array = np.asarray(array_of(x))
    out = np.array([table.get(_key(k), default) for k in array.ravel()], dtype=kind)
    return value_of(out.reshape(array.shape))


def _key(value: Any) -> Any:
    return "nan" if isinstance(value, float | np.floating) and np.isnan(value) else value


_MODES = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


@dataclass(frozen=True, slots=True)
class _Ways:
    """Where nodes lead, if their test holds or if it does not."""

    to: list[int]  # by node: a node, or a leaf
    is_leaf: list[int]


@dataclass(frozen=True, slots=True)
class _Tests:
    """What the nodes of trees ask of a row."""

    features: list[int]
    modes: list[int]
    splits: Any
    sets: dict[int, set[float]]  # of nodes that ask for membership
    holds_if_missing: list[int]
    yes: _Ways
    no: _Ways

    def leaf_of(self, row: Any, root: int) -> int:
        """The leaf of a tree that a row comes to."""
        yes, no = self.yes, self.no
        if yes.is_leaf[root] and no.is_leaf[root] and yes.to[root] == no.to[root]:
            return yes.to[root]  # a tree of one leaf
        node = root
        for _ in self.modes:
            way = yes if self.holds(row, node) else no
            node, is_leaf = way.to[node], way.is_leaf[node]
            if is_leaf:
                return node
        raise OnnxError("onnx: TreeEnsemble: a tree has a circle.")

    def holds(self, row: Any, node: int) -> bool:
        """Whether a node's test holds for a row."""
        value = row[self.features[node]]
        if np.isnan(value) and self.holds_if_missing[node]:
            return True
        if self.modes[node] == 6:
            return float(value) in self.sets[node]
        return bool(_MODES[self.modes[node]](value, self.splits[node]))


@operator("TreeEnsemble", domain=_DOMAIN)
def tree_ensemble(
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: list[int],
    leaf_weights: Value,
    membership_values: Value = None,
    n_targets: int = 1,
    nodes_falseleafs: list[int],
    nodes_falsenodeids: list[int],
    nodes_featureids: list[int],
    nodes_hitrates: Value = None,
    nodes_missing_value_tracks_true: list[int] | None = None,
    nodes_modes: Value,
    nodes_splits: Value,
    nodes_trueleafs: list[int],
    nodes_truenodeids: list[int],
    post_transform: int = 0,
    tree_roots: list[int],
) -> Tensor:
    """Trees of decisions, their leaves added up, averaged, or the least or largest of them."""
    if post_transform:
        raise OnnxError(
            f"onnx: TreeEnsemble: post_transform {post_transform} is not supported; 0 (none) is."
        )
    rows, weights, modes = array_of(x), np.asarray(array_of(leaf_weights)), integers(nodes_modes)
    tests = _Tests(
        nodes_featureids,
        modes,
        np.asarray(array_of(nodes_splits)),
        _memberships(membership_values, modes),
        nodes_missing_value_tracks_true or [0] * len(modes),
        _Ways(nodes_truenodeids, nodes_trueleafs),
        _Ways(nodes_falsenodeids, nodes_falseleafs),
    )
    scores: list[list[list[float]]] = [[[] for _ in range(n_targets)] for _ in rows]
    for row, targets in zip(rows, scores, strict=True):
        for root in tree_roots:
            leaf = tests.leaf_of(row, root)
            targets[leaf_targetids[leaf]].append(float(weights[leaf]))
    combine = (
        lambda v: sum(v) / len(tree_roots),
        sum,
        lambda v: min(v, default=0.0),
        lambda v: max(v, default=0.0),
    )[aggregate_function]
    out = np.array([[combine(values) for values in targets] for targets in scores])
    return ad.tensor(out.astype(rows.dtype).reshape(-1, n_targets))


def _memberships(values: Value, modes: list[int]) -> dict[int, set[float]]:
    """The set of each node that asks for membership; NaN ends one."""
    if values is None:
        return {}
    groups: list[set[float]] = [set()]
    for v in np.asarray(array_of(values)).ravel():
        if np.isnan(v):
            groups.append(set())
        else:
            groups[-1].add(float(v))
    nodes = [k for k, mode in enumerate(modes) if mode == 6]
    return dict(zip(nodes, groups, strict=False))
