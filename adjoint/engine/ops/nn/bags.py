"""Rows of a table pooled in bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.device import CPU
from adjoint.engine.core.dtype import float32, float64, int64
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.large import DEVICE_LAYOUTS, is_large
from adjoint.engine.core.operations.record import Record
from adjoint.engine.core.spec import Spec
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stream_capture import STREAM_CAPTURE
from adjoint.engine.ops.create.creation import ARANGE
from adjoint.engine.ops.index.index import INDEX, INDEX_PUT
from adjoint.engine.ops.nn.common import widen

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def bag_numbers(begins: Tensor, length: int) -> Tensor:
    """The number of the bag each of `length` positions falls in, from where the bags begin."""
    counts = begins.new_zeros((length + 1,))
    counts = counts.index_add(0, begins, begins.new_ones(begins.shape))
    return counts.cumsum(0)[:length] - 1


def pool(rows: Tensor, bag: Tensor, bags: int, counted: Tensor | None, mode: str) -> Tensor:
    """Rows of each bag summed, averaged or maximised, those not `counted` left out."""
    size = (bags, rows.shape[1])
    if mode == "max":
        if counted is not None:
            rows = rows.masked_fill(counted.logical_not().unsqueeze(1), -float("inf"))
        spread = bag.unsqueeze(1).expand(tuple(rows.shape))
        top = rows.new_full(size, -float("inf")).scatter_reduce(0, spread, rows, "amax")
        return top.masked_fill(top.eq(-float("inf")), 0)  # empty bags
    if counted is not None:
        rows = rows.masked_fill(counted.logical_not().unsqueeze(1), 0)
    total = rows.new_zeros(size).index_add(0, bag, rows)
    if mode == "sum":
        return total
    ones = rows.new_ones(bag.shape) if counted is None else counted.to(rows.dtype)
    number = rows.new_zeros((bags,)).index_add(0, bag, ones)
    return total / number.clamp_min(1).unsqueeze(1)


def pool_evenly(rows: Tensor, bags: int, counted: Tensor | None, mode: str) -> Tensor:
    """The same of bags of one length, one after another."""
    rows = rows.reshape((bags, -1, rows.shape[1]))  # (bags, rows of each, features)
    if counted is None:
        if mode == "max":
            return rows.amax(1)
        return rows.sum(1) if mode == "sum" else rows.mean(1)
    counted = counted.reshape((bags, -1, 1))
    if mode == "max":
        top = rows.masked_fill(counted.logical_not(), -float("inf")).amax(1)
        return top.masked_fill(top.eq(-float("inf")), 0)  # bags of padding alone
    total = rows.masked_fill(counted.logical_not(), 0).sum(1)
    return total if mode == "sum" else total / counted.to(rows.dtype).sum(1).clamp_min(1)


# -- as one node each, on the CPU -----------------------------------------------------------------


def _bags(x: Tensor, index: Tensor, begins: Tensor, mode: str) -> Tensor:
    bag = bag_numbers(begins, index.shape[0])
    rows = widen(INDEX(x, index, dims=(0,), wrap=False))
    return pool(rows, bag, begins.shape[0], None, mode).to(x.dtype)


def _bags_vjp(g: Tensor, index: Tensor, begins: Tensor, x_spec: Spec, mode: str) -> Tensor:
    return EMBEDDING_BAG_GRADIENT(g, index, begins, rows=x_spec.shape[0], mode=mode)


def _spread(g: Tensor, begins: Tensor, length: int, mode: str) -> Tensor:
    """What comes back to each bag, for each of its rows."""
    bag, total = bag_numbers(begins, length), widen(g)
    if mode == "mean":
        none = total.new_zeros((begins.shape[0],))
        number = none.index_add(0, bag, total.new_ones(bag.shape))
        total = total / number.clamp_min(1).unsqueeze(1)
    return INDEX(total, bag, dims=(0,), wrap=False).to(g.dtype)


def _added_up(each: Tensor, index: Tensor, rows: int) -> Tensor:
    """A table of zeros to whose rows those that came back are added."""
    table = each.new_zeros((rows, each.shape[1]))
    return INDEX_PUT(table, each, index, dims=(0,), accumulate=True)


def _gradient(g: Tensor, index: Tensor, begins: Tensor, rows: int, mode: str) -> Tensor:
    """What comes back to each bag, added to all of its rows."""
    return _added_up(_spread(g, begins, index.shape[0], mode), index, rows)


def _largest(x: Tensor, index: Tensor, begins: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """The largest of each bag, and the first row that has it; 0 and -1 of an empty one."""
    count, bags = index.shape[0], begins.shape[0]
    bag = bag_numbers(begins, count)
    rows = INDEX(x, index, dims=(0,), wrap=False)
    spread = bag.unsqueeze(1).expand(tuple(rows.shape))
    top = rows.new_full((bags, x.shape[1]), -float("inf")).scatter_reduce(0, spread, rows, "amax")
    own = INDEX(top, bag, dims=(0,))
    has = rows.eq(own).logical_or(rows.isnan().logical_and(own.isnan()))
    numbers = index.new_arange(count).unsqueeze(1).expand(tuple(rows.shape))
    numbers = numbers.masked_fill(has.logical_not(), count)
    first = numbers.new_full(tuple(top.shape), count).scatter_reduce(0, spread, numbers, "amin")
    empty = first.eq(count)
    chosen = INDEX(index, first.masked_fill(empty, 0), dims=(0,)).masked_fill(empty, -1)
    return top.masked_fill(empty, 0), chosen


def _largest_vjp(gs: Any, later_outs: Any, x_spec: Spec) -> Tensor:
    g, chosen = gs[0], later_outs[0]
    g = g.masked_fill(chosen.lt(0), 0)
    return g.new_zeros(x_spec.shape).scatter_add(0, chosen.clamp_min(0), g)


EMBEDDING_BAG: Record = composite(
    "embedding_bag", _bags, _bags_vjp, None, None,
    operands=("x", "index", "begins"), fragment="host", indexed="read", lies_in_rows=True,
)  # fmt: skip
EMBEDDING_BAG_GRADIENT: Record = composite(
    "embedding_bag_gradient", _gradient, operands=("g", "index", "begins"), fragment="host",
    lies_in_rows=True,
)  # fmt: skip
EMBEDDING_BAG_MAX: Record = composite(
    "embedding_bag_max", _largest, _largest_vjp, None, None, outputs=2,
    operands=("x", "index", "begins"), fragment="host", indexed="read", lies_in_rows=True,
)  # fmt: skip


# -- as one kernel of the eager table, on a GPU ---------------------------------------------------


LONG_BAG = 1 << 10  # rows, on the average


def _are_short(length: int, bags: int) -> bool:
    """Whether a thread that goes through a bag alone is done soon; a graph captures no reports."""
    return length <= LONG_BAG * bags and STREAM_CAPTURE.graph is None


def _whole_vjp(g: Tensor, index: Tensor, begins: Tensor, x_spec: Spec, mode: str) -> Tensor:
    each = EMBEDDING_BAG_SPREAD(g, begins, length=index.shape[0], mode=mode)
    return _added_up(each, index, x_spec.shape[0])


EMBEDDING_BAG_WHOLE: Record = composite(
    "embedding_bag_whole", _bags, _whole_vjp, None, None, operands=("x", "index", "begins"),
    fragment="device", indexed="read",
    pulls_views=True,  # its rule is a kernel of the eager table's, which no program has
    by_table=lambda operands, _: _are_short(operands[1]._array.size, operands[2]._array.size),
)  # fmt: skip
EMBEDDING_BAG_SPREAD: Record = composite(
    "embedding_bag_spread", _spread, operands=("g", "begins"), fragment="device",
    by_table=lambda operands, params: _are_short(params["length"], operands[1]._array.size),
)  # fmt: skip


def _is_one_kernel(weight: Tensor, index: Tensor, begins: Tensor, mode: str) -> bool:
    """Whether bags on a GPU are pooled by one kernel, which does not say where maxima are."""
    there = CONTEXT.settled and all(
        x._array.__class__ in DEVICE_LAYOUTS and x._array.size for x in (weight, index, begins)
    )
    followed = mode == "max" and CONTEXT.grad_enabled and weight.requires_grad
    return there and not followed and weight.dtype in (float32, float64)


def pool_whole(weight: Tensor, index: Tensor, begins: Tensor | None, bags: int, mode: str) -> Any:
    """Bags as one node: of a large table one program; None where its parts do as well.

    On a GPU that is a kernel.

    Without `begins` all are of one length.
    """
    count = index.shape[0]
    if begins is not None and _is_one_kernel(weight, index, begins, mode):
        return EMBEDDING_BAG_WHOLE(weight, index, begins, mode=mode)
    # Of several rows with the largest the first has the gradient: the parts would share it out.
    followed = mode == "max" and CONTEXT.grad_enabled and weight.requires_grad
    if not count or not (weight.device is CPU or followed):
        return None
    if begins is not None and mode != "max":  # parts take longer to be called than what they do
        return EMBEDDING_BAG(weight, index, begins, mode=mode)
    large = CONTEXT.settled and is_large(weight._array, EMBEDDING_BAG.large)
    if not ((large or followed) and bags and weight.shape[1]):
        return None
    if begins is None:
        length = count // bags
        begins = ARANGE(start=0, step=length, length=bags, dtype=int64, device=index.device)
    if mode == "max":
        return EMBEDDING_BAG_MAX(weight, index, begins, mode=mode)[0]
    return EMBEDDING_BAG(weight, index, begins, mode=mode)
