"""What operations do when an operand is sparse: a table from records to functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from adjoint.engine.core.dtype import int32, int64
from adjoint.engine.core.layout import sparse_coo
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.tree import TreeDef
from adjoint.engine.ops.elementwise.arithmetic import ADD, MUL, SUB
from adjoint.engine.ops.elementwise.division import DIV
from adjoint.engine.ops.elementwise.power import POW
from adjoint.engine.ops.index.index import INDEX
from adjoint.engine.ops.products.linear import LINEAR
from adjoint.engine.ops.products.matmul import MATMUL
from adjoint.engine.ops.reduce.norms import P_NORM
from adjoint.engine.ops.reduce.reduction import ANY, SUM
from adjoint.engine.ops.shape.convert import CAST, CLONE, TO_DEVICE
from adjoint.engine.ops.shape.join import CAT, STACK
from adjoint.engine.ops.shape.views import PERMUTE, RESHAPE, SLICE
from adjoint.engine.sparse import arithmetic, products, reductions, shapes
from adjoint.engine.sparse.compressed import KINDS, make_compressed
from adjoint.engine.sparse.compressed_creation import check_lines, check_order
from adjoint.engine.sparse.coo import CooTensor, empty_like, make
from adjoint.engine.sparse.creation import check_bounds, check_coordinates, check_shape
from adjoint.engine.sparse.tensor import Pattern, SparseTensor, complete, refusal
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor

Fn = Callable[..., Any]


def among(operands: tuple[Any, ...]) -> bool:
    """Whether an operand is sparse."""
    return any(isinstance(x, SparseTensor) for x in operands)


def process(record: Record, operands: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Perform an operation of which some operand is sparse."""
    rule = RULES.get(record)
    if rule is None:
        raise refusal(record.name, next(x for x in operands if isinstance(x, SparseTensor)))
    return rule(*operands, **params)


def _on_elements(record: Record, *, linear: bool = False) -> Fn:
    """A function of each element that keeps zero zero; one that is not linear needs sums first."""

    def rule(x: Any, **params: Any) -> Any:
        x = x if linear else x.coalesce()
        return x.with_elements(record(x._elements, **params))

    return rule


def _to_device(x: Any, *, device: Any, non_blocking: bool = False) -> Any:
    return x.moved(device)


def add_into(record: Record, into: Any, other: Any) -> bool:
    """`dense += sparse` in the memory of the dense one, touching only what the sparse one has."""
    fits = (
        record is ADD
        and not (CONTEXT.grad_enabled and other.requires_grad)
        and other._elements._array.dtype == into.dtype
        and tuple(other.shape) == into.shape
        and other.sparse_dim() > 0
    )
    return fits and HOOKS.array.add_into_at(into, other._elements._array, other._coordinates._array)


def split(x: Any) -> tuple[Any, tuple[Any, ...], list[Any]] | None:
    """A sparse tensor as a container of dense ones, for trees; None for a dense one."""
    if not isinstance(x, SparseTensor):
        return None
    return Pattern(type(x), x.rest()), (), list(x.tensors())


def refuse_in(name: str, structure: TreeDef) -> None:
    """Refuse to differentiate by a sparse tensor in a tree: its positions have no gradient."""
    if isinstance(structure.kind, Pattern):
        raise NotImplementedError(
            f"{name}: cannot differentiate by a sparse tensor of size {structure.kind.rest[0]}. "
            "Make it inside the function, and differentiate by its values."
        )
    for child in structure.children:
        refuse_in(name, child)


def assemble(layout: Any, tensors: list[Tensor], size: tuple[int, ...], coalesced: bool) -> Any:
    """A tensor of parts out of a file, whose elements may not have been read yet.

    So only shapes are checked; `settle` looks at where the elements are.
    """
    if layout is sparse_coo and len(tensors) == 2:
        coordinates, elements = tensors
        check_coordinates(coordinates, elements)
        check_shape(coordinates, elements, size)
        return make(coordinates, elements, size, coalesced)
    if layout in KINDS and len(tensors) == 3:
        starts, places, elements = tensors
        check_lines(KINDS[layout], starts, places, elements, size)
        return make_compressed(KINDS[layout], starts, places, elements, size)
    raise TypeError(f"{len(tensors)} tensors do not make one of layout {layout!r}")


def settle(tensor: SparseTensor) -> None:
    """Refuse positions outside a tensor of a file, whose parts have been read by now."""
    *positions, elements = tensor.tensors()
    spec = tensor._array.spec._replace(device=elements.device)  # they may have moved
    tensor._array = Window(spec, (0,) * len(spec.shape), 0)
    size = tuple(tensor.shape)
    if elements.is_meta:
        return
    for index in positions:
        if index.dtype not in (int32, int64):
            raise RuntimeError(
                f"{tensor.layout}: indices must be of int32 or int64, received {index.dtype.name}"
            )
    if tensor.layout is sparse_coo:
        check_bounds(positions[0], size)
    else:
        check_order(type(tensor), positions[0], positions[1], elements, size)  # type: ignore[arg-type]


def rows(index: Tensor, elements: Tensor, size: tuple[int, ...]) -> CooTensor:
    """A sparse table from rows of it: element k belongs to row index[k]."""
    return make(index.reshape((1, -1)), elements, size, coalesced=False)


def without_elements(x: CooTensor, dtype: Any, device: Any) -> CooTensor:
    """Zeros of a sparse tensor's shape: none of them is kept."""
    none = empty_like(x.detach(), tuple(x.shape))
    return none.to(x.device if device is None else device, dtype or x.dtype)


# Rows of the table below: what PyTorch computes of the elements alone, all of it zero at zero.
_ZERO_AT_ZERO = """
    abs asin asinh atan atanh ceil erf erfinv expm1 floor frac isinf isnan log1p relu round sign
    signbit sin sinh sqrt tan tanh trunc
""".split()

RULES: dict[Record, Fn] = {
    ADD: arithmetic.add,
    SUB: arithmetic.subtract,
    MUL: arithmetic.multiply,
    DIV: arithmetic.divide,
    POW: arithmetic.power,
    MATMUL: products.matmul,
    SUM: reductions.total,
    ANY: reductions.any_of,
    P_NORM: reductions.norm,
    PERMUTE: shapes.permute,
    SLICE: shapes.select,
    RESHAPE: shapes.reshape,
    INDEX: shapes.index_select,
    CAT: shapes.cat,
    STACK: shapes.stack,
    LINEAR: LINEAR.compose,  # type: ignore[dict-item]
    TO_DEVICE: _to_device,
    **{r: _on_elements(r, linear=True) for r in (CAST, CLONE, REGISTRY["neg"], REGISTRY["conj"])},
    **{r: _on_elements(r) for r in map(REGISTRY.__getitem__, _ZERO_AT_ZERO)},
}


def install() -> None:
    """Let the one door know of sparse operands."""
    complete(CooTensor)
    for cls in KINDS.values():
        complete(cls)
    HOOKS.sparse = sys.modules[__name__]
