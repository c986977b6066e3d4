"""One derivative per composite, whatever asks for it: every mode gives the tape's.

The tape's in turn is the finite difference wherever the function is smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import forward_ad
from adjoint.engine.core.operations.record import HOOKS, REGISTRY, Record
from adjoint.engine.core.state.context import CONTEXT
from adjoint.func import grad, jacfwd, jacrev, jvp, vjp, vmap
from adjoint.graph import capture
from tests.composite_points import ROWS, Array, Point, Row, make_modules, tolerance

Function = Callable[..., Any]
make_modules(ad)


def tape(fn: Function, xs: tuple[Any, ...]) -> list[Any]:
    leaves = [x.detach().clone().requires_grad_() for x in xs]
    return list(ad.autograd.grad(fn(*leaves), leaves, materialize_grads=True))


def tape_twice(point: Point) -> list[Any]:
    """The gradient of `slopes`, by backward through backward."""
    leaves = [x.detach().clone().requires_grad_() for x in point.xs]
    firsts = ad.autograd.grad(
        point.total(*leaves), leaves, create_graph=True, materialize_grads=True
    )
    second = point.weighted(firsts)
    if not second.requires_grad:
        return [x.new_zeros(x.shape) for x in leaves]
    return list(ad.autograd.grad(second, leaves, materialize_grads=True))


# -- modes: the gradient of a scalar function, in as many ways as there are ----------------------


def by_grad(fn: Function, point: Point) -> Any:
    return grad(fn, point.which)(*point.xs)


def by_vjp(fn: Function, point: Point) -> Any:
    out, pull = vjp(fn, *point.xs)
    return pull(ad.ones_like(out))


def by_jacrev(fn: Function, point: Point) -> Any:
    return jacrev(fn, point.which)(*point.xs)


def by_jacfwd(fn: Function, point: Point) -> Any:
    return jacfwd(fn, point.which)(*point.xs)


def twice(point: Point) -> tuple[Any, ...]:
    return tuple(ad.stack([x, x]) for x in point.xs)


def by_vmap_of_grad(fn: Function, point: Point) -> Any:
    return [g[1] for g in vmap(grad(fn, point.which))(*twice(point))]


def by_grad_of_vmap(fn: Function, point: Point) -> Any:
    found = grad(lambda *xs: vmap(fn)(*xs)[1], point.which)(*twice(point))
    return [g[1] for g in found]


def by_grad_of_nested_vmap(fn: Function, point: Point) -> Any:
    nested = [ad.stack([x]) for x in twice(point)]
    found = grad(lambda *xs: vmap(vmap(fn))(*xs)[0, 1], point.which)(*nested)
    return [g[0, 1] for g in found]


def by_tape_of_vmap(fn: Function, point: Point) -> Any:
    return [g[1] for g in tape(lambda *xs: vmap(fn)(*xs)[1], twice(point))]


def by_captured_grad(fn: Function, point: Point) -> Any:
    return capture(lambda *xs: grad(fn, point.which)(*xs))(*point.xs)


def by_captured_tape(fn: Function, point: Point) -> Any:
    return capture(lambda *xs: tape(fn, xs))(*point.xs)


REVERSE = [by_grad, by_vjp, by_jacrev, by_vmap_of_grad, by_grad_of_vmap, by_grad_of_nested_vmap]
REVERSE += [by_tape_of_vmap, by_captured_grad, by_captured_tape]

# Forward mode of elementwise rows: the tangents of all results at once, by one operand.


def by_jvp(fn: Function, x: Any) -> Any:
    return jvp(fn, (x,), (ad.ones_like(x),))[1]


def by_jvp_of_vmap(fn: Function, x: Any) -> Any:
    pair = ad.stack([x, x])
    return jvp(vmap(fn), (pair,), (ad.ones_like(pair),))[1][0]


def by_vmap_of_jvp(fn: Function, x: Any) -> Any:
    return vmap(lambda x: by_jvp(fn, x))(ad.stack([x, x]))[0]


def by_captured_jvp(fn: Function, x: Any) -> Any:
    return capture(lambda x: by_jvp(fn, x))(x)


def by_forward_ad(fn: Function, x: Any) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(fn(forward_ad.make_dual(x, ad.ones_like(x)))).tangent


FORWARD = [by_jvp, by_jvp_of_vmap, by_vmap_of_jvp, by_captured_jvp, by_forward_ad]


# The row of an embedding's padding has a value and, on purpose, no gradient; as in PyTorch it moves
# the result in forward mode.
MOVED_FORWARD = {"embedding"}


def alone(fn: Function, point: Point, k: int) -> Function:
    """A function of the k-th operand alone."""
    return lambda x: fn(*point.xs[:k], x, *point.xs[k + 1 :])


class Check:
    """All modes at one point, first and second derivatives."""

    def __init__(self, row: Row, arrays: tuple[Array, ...]) -> None:
        self.row, self.arrays = row, arrays
        self.point = Point(ad, row, arrays)

    def same(self, got: Any, want: list[Any], what: str, relative: float = 1e-9) -> None:
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            wanted = w.detach().numpy()
            np.testing.assert_allclose(
                np.zeros(w.shape) if g is None else g.detach().numpy(),
                wanted,
                rtol=relative,
                atol=0 if self.row.elementwise else tolerance(self.row, self.arrays, wanted),
                err_msg=f"{what}, operand {k} of {self.arrays}",
            )

    def first(self) -> None:
        point = self.point
        want = tape(point.total, point.xs)
        for mode in REVERSE:
            self.same(mode(point.total, point), want, mode.__name__)
        if self.row.elementwise:
            for push in FORWARD:
                got = [push(alone(point.outs, point, k), x) for k, x in enumerate(point.xs)]
                self.same(got, want, push.__name__)
        elif point.finite and self.row.name not in MOVED_FORWARD:
            self.same(by_jacfwd(point.total, point), want, "by_jacfwd")

    def second(self) -> None:
        point = self.point
        want = tape_twice(point)
        self.same(by_grad(point.slopes, point), want, "grad of grad", 1e-7)
        self.same(by_captured_grad(point.slopes, point), want, "grad of grad, captured", 1e-7)
        if not self.row.elementwise:
            if point.finite:
                self.same(by_jacfwd(point.slopes, point), want, "jacfwd of grad", 1e-7)
            return
        for k, x in enumerate(point.xs):
            slope = grad(alone(point.total, point, k))
            reverse = grad(lambda x, slope=slope: slope(x).sum())(x)
            self.same([by_jvp(slope, x)], [reverse], "jvp of grad", 1e-7)


def check(row: Row, points: int | None = None) -> None:
    for arrays in row.points[:points]:
        one = Check(row, arrays)
        one.first()
        one.second()


FEW = {
    "log_sigmoid", "elu", "hardswish", "soft_margin_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "p_norm 2.0", "std", "softmax", "layer_norm",
    "cross_entropy", "scaled_dot_product_attention", "lstm_gates",
}  # fmt: skip


@pytest.mark.parametrize("row", [r for r in ROWS if r.name in FEW], ids=repr)
def test_some_composites_in_every_mode(row: Row) -> None:
    check(row, points=1)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_every_composite_in_every_mode(row: Row) -> None:
    check(row)


# -- finite differences -------------------------------------------------------------------------


def difference(fn: Function, x: Array) -> tuple[Array, Array, Array]:
    """The slope, what rounding leaves of it, and whether there is one: from both sides, and from
    ten times as far, it must be the same."""
    here = fn(x)
    sides = [(fn(x + step) - here) / step for step in (1e-6, -1e-6, 1e-5, -1e-5)]
    noise = 1e-6 + 1e-8 * np.abs(here)
    slope = (sides[0] + sides[1]) / 2
    with np.errstate(invalid="ignore"):
        smooth = np.all([np.abs(s - slope) <= 1e-4 * (1 + np.abs(slope)) + noise for s in sides], 0)
    return slope, noise, smooth


def compare(got: Array, fn: Function, x: Array, among: Any = True) -> int:
    """Derivatives against differences; how many there were to compare."""
    slope, noise, smooth = difference(fn, x)
    clear = smooth & among
    wrong = clear & ~(np.abs(got - slope) <= 1e-4 * np.abs(slope) + noise)
    assert not wrong.any(), f"{got[wrong]} != {slope[wrong]}"
    return int(clear.sum())


def compare_elementwise(point: Point, fn: Function, got: list[Any]) -> int:
    """Derivatives by each operand."""
    xs = [x.numpy() for x in point.xs]
    low, high = point.row.domain
    inside = np.all([(x >= low + 1e-3) & (x <= high - 1e-3) for x in xs], axis=0)
    inside &= np.all([np.abs(x) <= 100 for x in xs], axis=0)
    compared = 0
    for k, x in enumerate(xs):

        def values(x: Array, k: int = k) -> Array:
            given = [ad.tensor(np.where(inside, a, 0.5)) for a in xs]
            given[k] = ad.tensor(np.where(inside, x, 0.5))
            out: Array = fn(*given).detach().numpy()
            return out

        compared += compare(got[k].numpy(), values, x, inside)
    return compared


@pytest.mark.slow
@pytest.mark.parametrize("row", [r for r in ROWS if r.elementwise], ids=repr)
def test_elementwise_composites_against_finite_differences(row: Row) -> None:
    point = Point(ad, row, row.points[0])
    assert compare_elementwise(point, point.outs, tape(point.total, point.xs))

    def slopes(*xs: Any) -> Any:
        return sum(grad(point.total, point.which)(*xs))

    assert compare_elementwise(point, slopes, tape_twice(point))


GENERAL = [r for r in ROWS if not r.elementwise and r.name not in MOVED_FORWARD]


@pytest.mark.slow
@pytest.mark.parametrize("row", GENERAL, ids=repr)
def test_composites_against_finite_differences(row: Row) -> None:
    """Along one direction at each point, to first and second order."""
    compared = 0
    for arrays in row.points:
        point = Point(ad, row, arrays)
        if not point.finite or max(float(x.abs().max()) for x in point.xs) > 100:
            continue
        rng = np.random.default_rng(5)
        way = [ad.tensor(rng.uniform(-1, 1, tuple(x.shape))) for x in point.xs]
        firsts, seconds = tape(point.total, point.xs), tape_twice(point)
        for fn, found in ((point.total, firsts), (point.slopes, seconds)):

            def along(t: Array, fn: Function = fn, point: Point = point, way: Any = way) -> Array:
                moved = [x + v * float(t) for x, v in zip(point.xs, way, strict=True)]
                return np.array(float(fn(*moved)))

            slope = sum(float((g * v).sum()) for g, v in zip(found, way, strict=True))
            compared += compare(np.array(slope), along, np.array(0.0))
    assert compared


# -- all of them --------------------------------------------------------------------------------

# Made by other composites, or tested where they are: BATCHED here by every mode of vmap.
WITHIN = {
    "add_to_channels",  # of convolutions on a GPU: tests/small_calls_on_a_gpu.py
    "add_scaled",  # off the tape, in place on a GPU: tests/test_small_calls_on_a_gpu.py
    "batched",
    "alpha_dropout",  # of eager mode on a GPU: tests/launches_on_a_gpu.py
    "bernoulli_drawn",  # the same
    "all_close",  # truths
    "all_equal",
    "checked_binary_cross_entropy",
    "root_of_sums",  # of Euclidean distances, as are the squares
    "row_squares",
    "kept_by_alpha_dropout",
    "poisson_drawn",
    "standard_gamma_drawn",
    "rfft_several",  # the same, off the tape
    "fractional_max_pool",  # whose draws have no derivative: tests/test_pooling.py
    "one_hot_there",
    "sloped",
    "biased_convolution",  # the same: tests/convolutions_on_a_gpu.py
    "biased_convolution_transpose",
    "count_nonzero",  # of whole numbers
    "constant_pad",  # where nobody looks on: tests/test_native_padding.py
    "dot",  # where nobody looks on: tests/test_little_matrices.py
    "dot_product",  # off the tape: tests/test_reductions.py
    "dropout",  # on a GPU, where it draws again: tests/test_calls_cuda.py
    "embedding_bag_gradient",  # tests/test_middling_picks.py
    "embedding_bag_max",
    "extreme",  # where nobody looks on, as are largest, mean and sort: rows of max, topk, sort
    "largest",
    "lstm_gates_backward",
    "max_pool_backward",
    "max_pool_of_channels",  # where nobody looks on: tests/test_native_pooling.py
    "mean",
    "nansum",  # where nobody looks on: tests/test_reductions.py
    "one_hot",  # of whole numbers
    "running_extreme",  # off the tape
    "random_order",  # of whole numbers
    "gru_gates_backward",
    "key_ranges",  # of whole numbers
    "gru_layer",  # layers are compared with their steps, to second order
    "lstm_layer",
    "plain_layer",
    "recurrent_network",  # tests/test_recurrent_networks.py
    "recurrent_network_gradient",
    "scaled_dot_product_attention_backward",
    "ctc_loss_gradient",  # by a GPU's kernel: tests/test_calls_cuda.py
    "grid_sampler_whole",  # on a GPU, as is grid_sampler elsewhere: tests/test_calls_cuda.py
    "grid_sampler_gradient",
    "ctc_loss_small",  # compared with the other where small operations are
    "ctc_loss_program",  # in tests/test_ctc_programs.py
    "embedding_bag_whole",  # on a GPU: tests/test_bags_cuda.py
    "embedding_bag_spread",
    "weighted_half",  # of rules of transforms
    "embedding_sparse",
    "moved_statistic",  # off the tape
    "moved_statistics",
    "sort",
    "solve_factored",  # of more rows: tests/test_matrix_fragments.py
    "sparse_matmul",
}
# What rounds has no derivative, or one that passes straight through and is no slope: those are
# checked against PyTorch's and closed forms where quantisation is tested.
ROUNDED = {
    "quantize_affine",
    "dequantize_affine",
    "fake_quantize",
    "learnable_fake_quantize",
    "dequantize_groups",
    "grouped_linear",
    "quantized_linear",
    "quantized_convolution",
    "scaled_product",
}


def test_every_composite_has_a_row() -> None:
    HOOKS.load_rest()
    seen: set[str] = set()

    def watch(record: Record, *_: Any) -> None:
        seen.add(record.name)

    with CONTEXT.having(observers=(watch,)):
        for row in ROWS:
            point = Point(ad, row, row.points[0])
            point.outs(*point.xs)
    composites = {r.name for r in REGISTRY.values() if r.compose is not None}
    missing = composites - seen - WITHIN - ROUNDED
    assert not missing, f"add rows to tests/composite_points.py for {sorted(missing)}"


# -- what else follows --------------------------------------------------------------------------


def test_weights_of_classes_refuse_to_be_differentiated() -> None:
    x, w, target = ad.randn(2, 3), ad.ones(3), ad.tensor([0, 2])
    attempts: list[Function] = [
        lambda f: grad(f)(w),
        lambda f: jvp(f, (w,), (w,)),
        lambda f: f(w.clone().requires_grad_()).backward(),
    ]
    for loss in (ad.nn.functional.cross_entropy, ad.nn.functional.nll_loss):

        def by_weight(w: Any, loss: Any = loss) -> Any:
            return loss(x, target, weight=w)

        for attempt in attempts:
            with pytest.raises(RuntimeError, match="not differentiable with respect to .*weight"):
                attempt(by_weight)


def test_transforms_in_inference_mode() -> None:
    with ad.inference_mode():
        x = ad.zeros(2)
        _, tangent = jvp(ad.nn.functional.logsigmoid, (x,), (ad.ones(2),))
        assert tangent.tolist() == [0.5, 0.5]
        assert vmap(grad(ad.nn.functional.logsigmoid))(x).tolist() == [0.5, 0.5]


def test_batches_of_dynamic_size() -> None:
    def slopes(x: Any) -> Any:
        return grad(lambda x: vmap(ad.nn.functional.logsigmoid)(x).sum())(x)

    compiled = ad.compile(slopes, dynamic=True)
    for size in (3, 5, 8):
        assert compiled(ad.zeros(size, 2)).tolist() == [[0.5, 0.5]] * size
