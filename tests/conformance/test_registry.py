"""Every record is exercised by a sample, and infers what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine import assembly
from adjoint.engine.core.operations.record import REGISTRY, Record, is_tensor
from adjoint.engine.core.spec import Spec, UnknownShapeError
from adjoint.engine.core.state.context import CONTEXT
from tests.conformance.cases import Case, firsts, make, rows

ROWS = rows()
# No sample can show these: what `empty` holds is undefined, a move needs a second device
# (tests/conformance/test_cuda.py), sparse tensors and gradients are tested in test_sparse.py,
# collectives need other processes (tests/ranks), and only captured bodies have the rest
# (test_control_flow.py).
ELSEWHERE = frozenset(
    "empty to_device batched sparse_matmul embedding_sparse scan cond while_loop stop_gradient "
    "custom_function custom_op all_reduce begin_all_reduce end_all_reduce broadcast_from reduce_to all_gather reduce_scatter all_to_all copied "
    "summed gathered divided gather_parts exchange pipe_split "
    "addmm autocast_addmm autocast_linear lstm_layer gru_layer plain_layer "  # of eager mode on a GPU
    "torchvision::nms torchvision::roi_align "  # of exports to ONNX: tests/test_onnx_values.py
    "ctc_loss_program "  # of more elements: tests/test_ctc_programs.py
    "sort largest extreme mean running_extreme "  # where nobody looks on: tests/test_native_sorting.py, test_picking_nodes.py
    "nansum dot_product "  # where nobody looks on: tests/test_reductions.py
    "dot "  # the same: tests/test_little_matrices.py
    "solve_factored "  # of more rows: tests/test_matrix_fragments.py
    "spectrum eig_pairs of_pairs_1 of_pairs_2 of_pairs_3 "  # of compiled programs: tests/test_native_spectra.py, test_native_borrowed.py, test_native_routines.py
    "rows_by_runs depths_by_runs "  # whose runs end where elements say: tests/composite_points.py
    "scaled_product "  # of float8: tests/test_scaled_products.py
    "key_ranges "  # whole numbers of sequences: tests/test_varlen_attention.py
    "ctc_loss_gradient dropout grid_sampler_whole grid_sampler_gradient unique_values "  # of eager mode on a GPU: tests/test_calls_cuda.py
    "embedding_bag_whole embedding_bag_spread "  # the same: tests/test_bags_cuda.py
    "add_scaled add_to_channels "  # the same: tests/test_small_calls_on_a_gpu.py
    "bernoulli_drawn sloped alpha_dropout kept_by_alpha_dropout "  # the same: tests/launches_on_a_gpu.py
    "checked_binary_cross_entropy row_squares root_of_sums all_close all_equal "  # the same
    "poisson_drawn standard_gamma_drawn "  # the same: tests/launches_on_a_gpu.py
    "rfft_several one_hot_there repeated "  # the same: tests/test_more_calls_cuda.py
    "biased_convolution biased_convolution_transpose "  # the same: tests/convolutions_on_a_gpu.py
    "recurrent_network recurrent_network_gradient "  # tests/test_recurrent_networks.py
    "max_pool_of_channels "  # of images in that order: tests/test_native_pooling.py
    "constant_pad one_hot embedding_bag embedding_bag_max embedding_bag_gradient "  # where nobody looks on: tests/test_native_padding.py, test_middling_picks.py
    "moved_statistics "  # of eager mode on a GPU: tests/test_small_calls_on_a_gpu.py
    "moved_statistic ctc_loss_small".split()  # within others, of few elements: tests/test_small_rows.py
)


class Watcher:
    """Checks each operation's results against what its record says, and notes which records ran."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.wrong: list[str] = []

    def __call__(self, record: Record, operands: Any, params: Any, outs: Any) -> None:
        self.seen.add(record.name)
        if record.compose is not None:
            return
        specs = [x._spec if is_tensor(x) else x for x in operands]
        try:
            inferred = record.infer(*specs, **params)
        except UnknownShapeError:
            return
        want = (inferred,) if isinstance(inferred, Spec) else tuple(inferred)
        got = tuple(o._spec for o in (outs if isinstance(outs, tuple) else (outs,)))
        if got != want:
            self.wrong.append(f"{record.name}{specs} {params}: infers {want}, computes {got}")
        if record.selects and not elements(outs) <= elements(operands[0]):
            self.wrong.append(
                f"{record.name}{specs} {params}: has elements that its operand has not"
            )


def elements(x: Any) -> set[bytes]:
    """The elements of a tensor, byte by byte."""
    return {element.tobytes() for element in x._array.ravel()}


def backward(case: Case) -> None:
    tensors = [
        t.clone().requires_grad_() if i in case.wanted else t for i, t in enumerate(case.tensors)
    ]
    outs = [t for t in case.floats(tensors) if t.requires_grad]
    if outs:
        leaves = [tensors[i] for i in case.wanted]
        ad.autograd.grad(outs, leaves, [ad.ones_like(o) for o in outs], allow_unused=True)


def test_infer_agrees_and_every_record_has_a_sample() -> None:
    assembly.load_lazy()
    watcher = Watcher()
    with CONTEXT.having(observers=(watcher,)):
        for row in ROWS:
            for dtype in (ad.float64, ad.float32):
                case = make(row, dtype)
                case.fn(*case.tensors)
            if row.grad:
                backward(make(row))
    assert not watcher.wrong, "\n".join(sorted(set(watcher.wrong))[:30])
    missing = sorted(set(REGISTRY) - watcher.seen - ELSEWHERE)
    assert not missing, "records without a sample; add rows to tests/samples: " + ", ".join(
        f'S("{name}", T(2, 3))' for name in missing
    )


@pytest.mark.parametrize("row", firsts([r for r in ROWS if not r.random]))
def test_halves_follow_float64(row: Any) -> None:
    """float16 and bfloat16 give the float64 result to their own precision."""
    exact = make(row)
    want = exact.fn(*exact.tensors)
    for dtype, tolerance in ((ad.float32, 1e-4), (ad.bfloat16, 0.1), (ad.float16, 0.02)):
        case = make(row, dtype)
        try:
            got = case.fn(*case.tensors)
        except (RuntimeError, NotImplementedError, TypeError):
            if dtype is ad.float32:
                raise
            continue  # refused, as PyTorch refuses many of these
        for g, w in zip(got, want, strict=True):
            if g.dtype.is_inexact and w.dtype.is_inexact and g.shape == w.shape:
                a = g.to(ad.complex128 if g.dtype.is_complex else ad.float64).numpy()
                b = w.numpy()
                close = np.isclose(
                    a, b, rtol=tolerance, atol=tolerance * max(1.0, _scale(b)), equal_nan=True
                )
                assert close.all(), f"{dtype}: {a} != {b}"


def _scale(b: Any) -> float:
    finite = np.abs(b[np.isfinite(b)]) if b.size else b
    return float(finite.max()) if finite.size else 0.0
