"""Rules of views for `simplify`: views of views, views that show everything, writes through views.

Views rank by what they can say: what a reshape can say is said by a reshape, so that the chains
that remain are short and equal ones look equal.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.graph.ir import Value
from adjoint.engine.graph.passes.rewrite import GraphBuilder
from adjoint.engine.graph.passes.rules.algebra import Inputs, Params, Rule, alike, made_by
from adjoint.engine.ops.create.creation import FULL
from adjoint.engine.ops.shape.views import (
    EXPAND,
    PERMUTE,
    RESHAPE,
    SLICE,
    VIEW_SCATTER,
    inverse_permutation,
)

Shape = tuple[int, ...]
Index = tuple[Any, ...]
Chain = tuple[tuple[Record, dict[str, Any]], ...]


def view_of_full(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A view of a filled tensor is a filled tensor."""
    node = made_by(inputs[0], "full")
    if node is None:
        return None
    options = {"shape": spec.shape, "dtype": spec.dtype, "device": spec.device}
    return b.emit(FULL, node.inputs[0], **options, strides=None)


# -- reshape, permute, expand --------------------------------------------------------------------


def reshaped(b: GraphBuilder, x: Value, shape: Shape) -> Value:
    """x in another shape, by at most one node."""
    inner = made_by(x, "reshape")
    if inner is not None:
        x = inner.inputs[0]
    return x if x.spec.shape == shape else b.emit(RESHAPE, x, shape=shape)


def simplify_reshape(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """The shape x has, and a reshape of a reshape."""
    x = inputs[0]
    if x.spec.shape == spec.shape or made_by(x, "reshape") is not None:
        return reshaped(b, x, spec.shape)
    return None


def simplify_permute(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A permutation of a permutation; one that moves only dimensions of size 1."""
    x, dims = inputs[0], params["dims"]
    inner = made_by(x, "permute")
    if inner is not None:
        first = inner.params["dims"]
        x, dims = inner.inputs[0], tuple([first[d] for d in dims])
    shape = x.spec.shape
    moved = [d for d in dims if shape[d] != 1]
    if moved == sorted(moved):
        return reshaped(b, x, spec.shape)
    return None if inner is None else b.emit(PERMUTE, x, dims=dims)


def simplify_expand(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """An expansion to the shape x has, or of an expansion, or of added leading dimensions."""
    x = inputs[0]
    if x.spec.shape == spec.shape:
        return x
    inner = made_by(x, "expand")
    if inner is None:
        inner = made_by(x, "reshape")
        if inner is None or not _adds_leading(inner.inputs[0].spec.shape, x.spec.shape):
            return None
    return b.emit(EXPAND, inner.inputs[0], shape=spec.shape)


def before_expanding(record: Record) -> Rule:
    """An elementwise function of an expanded tensor alone is computed before it is expanded."""

    def rule(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
        expanded = None
        for x in inputs:
            if x.__class__ is Value and not x.host:
                if expanded is not None:
                    return None
                expanded = x
        node = made_by(expanded, "expand")
        # Promotion tells tensors without dimensions apart.
        if node is None or not node.inputs[0].spec.shape:
            return None
        source = node.inputs[0]
        small = b.emit(record, *[source if x is expanded else x for x in inputs], **params)
        return b.emit(EXPAND, small, shape=spec.shape)

    return rule


def _adds_leading(old: Shape, new: Shape) -> bool:
    added = len(new) - len(old)
    return added >= 0 and new[added:] == old and prod(new[:added]) == 1


# -- slice ---------------------------------------------------------------------------------------


def simplify_slice(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
    """A slice of a slice, a slice of everything, a slice of what was written or joined."""
    x, index = inputs[0], params["index"]
    inner = made_by(x, "slice")
    if inner is not None:
        joined = compose(inner.params["index"], index)
        if joined is not None:
            source = inner.inputs[0]
            simpler = simplify_slice(b, (source,), {"index": joined}, spec)
            return b.emit(SLICE, source, index=joined) if simpler is None else simpler
    if shows_all(index, x.spec.shape):
        return reshaped(b, x, spec.shape)
    written = made_by(x, "view_scatter")
    if written is not None and len(written.params["chain"]) == 1:
        record, options = written.params["chain"][0]
        if record is SLICE and disjoint(options["index"], index):
            simpler = simplify_slice(b, (written.inputs[0],), params, spec)
            return b.emit(SLICE, written.inputs[0], index=index) if simpler is None else simpler
    return None


def shows_all(index: Index, shape: Shape) -> bool:
    """Whether a slice shows every element, in order."""
    sizes = iter(shape)
    for entry in index:
        if entry is None:
            continue
        size = next(sizes)
        if isinstance(entry, int):
            if size != 1:
                return False
        elif entry[2] != 1 or entry[1] - entry[0] != size:
            return False
    return True


def compose(first: Index, second: Index) -> Index | None:
    """The index that shows of x what `second` shows of what `first` shows; None: no such index."""
    result: list[Any] = []
    rest = iter(second)
    for entry in first:
        if isinstance(entry, int):
            result.append(entry)
            continue
        then = next(rest)
        while then is None:
            result.append(None)
            then = next(rest)
        if entry is None:
            if isinstance(then, int):
                continue
            if then != (0, 1, 1):
                return None
            result.append(None)
        else:
            result.append(_within(entry, then))
    return (*result, *rest)


def _within(entry: tuple[int, int, int], then: Any) -> Any:
    start, _, step = entry
    if isinstance(then, int):
        return start + then * step
    count = -((then[0] - then[1]) // then[2])
    if count == 0:
        return (start, start, 1)
    first = start + then[0] * step
    stride = step * then[2]
    return (first, first + (count - 1) * stride + 1, stride)


def disjoint(a: Index, b: Index) -> bool:
    """Whether two slices of one tensor have no element in common, as their bounds show."""
    for x, y in zip([e for e in a if e is not None], [e for e in b if e is not None], strict=True):
        low, high = (x, x + 1) if isinstance(x, int) else x[:2]
        start, stop = (y, y + 1) if isinstance(y, int) else y[:2]
        if high <= start or stop <= low:
            return True
    return False


# -- writes through views ------------------------------------------------------------------------

_ONCE = (RESHAPE, PERMUTE, SLICE)  # these show each element at most once


def joined(chain: Chain) -> Chain:
    """A chain of views with views of views of one kind made one, as the rules above do to nodes."""
    result: list[Any] = []
    for record, params in chain:
        last, before = result[-1] if result else (None, {})
        merged: Any = None
        if record is last is RESHAPE:
            merged = params
        elif record is last is PERMUTE:
            merged = {"dims": tuple([before["dims"][d] for d in params["dims"]])}
        elif record is last is SLICE:
            index = compose(before["index"], params["index"])
            merged = None if index is None else {"index": index}
        if merged is None:
            result.append((record, params))
        else:
            result[-1] = (record, merged)
    return tuple(result)


def view_of_written(record: Record) -> Rule:
    """What a view shows of a tensor written through that very view is what was written."""

    def rule(b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec) -> Value | None:
        chain: Chain = ((record, params),)
        node = inputs[0].node
        while node is not None and node.record.is_view and len(chain) < 4:
            chain = ((node.record, node.params), *chain)
            node = node.inputs[0].node
        if node is None or node.record is not VIEW_SCATTER or node.params["chain"] != chain:
            return None
        # Where a chain shows an element twice, what is there is what was written last.
        once = all(view in _ONCE for view, _ in chain)
        return node.inputs[1] if once and alike(node.inputs[1], spec) else None

    return rule


def followed(x: Any, chain: Any) -> Any:
    """The value that x shows the chain of views of, or None."""
    for record, params in reversed(chain):
        node = made_by(x, record.name)
        if node is None or node.params != params:
            return None
        x = node.inputs[0]
    return x


def simplify_view_scatter(
    b: GraphBuilder, inputs: Inputs, params: Params, spec: Spec
) -> Value | None:
    """A write over the whole, of what is there already, or over an earlier write."""
    x, y = inputs
    chain = joined(params["chain"])
    whole = inverted(b, y, x.spec, chain)
    if whole is not None:
        return whole
    if followed(y, chain) is x:
        return x
    earlier = made_by(x, "view_scatter")
    if earlier is not None and earlier.params["chain"] == chain:
        return b.emit(VIEW_SCATTER, earlier.inputs[0], y, chain=chain)
    return None if len(chain) == len(params["chain"]) else b.emit(VIEW_SCATTER, x, y, chain=chain)


def inverted(b: GraphBuilder, y: Value, spec: Spec, chain: Any) -> Value | None:
    """The tensor of which the chain shows y, if it shows all of it."""
    shapes = [spec.shape]
    for record, params in chain:
        if record is SLICE:
            if not shows_all(params["index"], shapes[-1]):
                return None
        elif record is not RESHAPE and record is not PERMUTE:
            return None
        shapes.append(record.infer(spec._replace(shape=shapes[-1]), **params).shape)
    if y.spec.dtype is not spec.dtype or y.spec.shape != shapes[-1]:
        return None
    for (record, params), shape in zip(reversed(chain), reversed(shapes[:-1]), strict=True):
        if record is PERMUTE:
            y = b.emit(PERMUTE, y, dims=inverse_permutation(params["dims"]))
        else:
            y = reshaped(b, y, shape)
    return y
