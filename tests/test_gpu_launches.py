"""How many launches the GPU's target makes of common programs, without a GPU."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.nn import functional as F

from .test_triton_images import Everything, planned


def launches(fn: Any, *args: Any) -> list[int]:
    """Of each launch, how many kernels it has."""
    steps = planned(lambda backend: ad.compile(fn, backend=backend)(*args), Everything())
    assert all(isinstance(step, Launch) for step in steps)
    return [len(step.kernels) for step in steps]


def grads(fn: Any) -> Any:
    """A function's derivatives by its operands."""

    def run(g: Any, *operands: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in operands]
        return ad.autograd.grad(fn(*leaves), leaves, g)

    return run


NORMS = {
    "layer_norm": lambda x, w: F.layer_norm(x, w.shape, w),
    "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w),
    "softmax": lambda x, w: x.softmax(-1),
    "logsumexp": lambda x, w: x.logsumexp(-1),
    "argmax": lambda x, w: x.argmax(-1),
    "sum": lambda x, w: x.sum(-1),
}


@pytest.mark.parametrize("shape", [(8192, 4096), (600, 50257), (1, 4096), (16, 20000)])
@pytest.mark.parametrize("name", NORMS)
def test_rows_are_one_launch(name: str, shape: tuple[int, ...]) -> None:
    """However wide they are, if they are many; and short ones if they are few."""
    assert len(launches(NORMS[name], ad.empty(*shape), ad.empty(shape[-1]))) == 1


@pytest.mark.parametrize("shape", [(1, 50257), (32, 1 << 16)])
def test_few_long_rows_are_summed_in_parts(shape: tuple[int, ...]) -> None:
    assert len(launches(NORMS["sum"], ad.empty(*shape), ad.empty(1))) == 2


@pytest.mark.parametrize(("shape", "count"), [((8192, 4096), 2), ((16, 4096), 2), ((16, 512), 1)])
def test_a_norm_s_gradients_by_its_operand_and_its_weight(
    shape: tuple[int, ...], count: int
) -> None:
    """What sums down columns is beside what reduces rows, unless one program would do all of it."""
    x, w = ad.empty(*shape), ad.empty(shape[-1])
    assert len(launches(grads(NORMS["rms_norm"]), x, x, w)) == count


@pytest.mark.parametrize("dims", [(0, 1), (1, 0)])
def test_what_reads_a_sum_of_columns_is_launched_after_it(dims: tuple[int, int]) -> None:
    """A program has its own rows' part of them only."""
    rows, columns = dims

    def read(x: Any) -> Any:
        y = x - x.mean(rows, keepdim=True)
        return y * y.sum(columns)[..., None] if columns else y * y.sum(columns)

    assert len(launches(read, ad.empty(6, 6))) == 2


@pytest.mark.parametrize("size", [16, 64])
def test_a_group_norm_has_no_launch_for_what_it_makes_of_variances(size: int) -> None:
    """Small groups are rows of one kernel; large ones have two for their moments."""
    norm = nn.GroupNorm(8, 32)
    counts = launches(lambda x: F.silu(norm(x)), ad.empty(1, 32, size, size).requires_grad_(False))
    assert len(counts) == (1 if size == 16 else 3)


def test_a_convolution_of_pixels_is_a_product_where_they_are_few() -> None:
    layer = nn.Conv2d(64, 32, 1, bias=False).to(ad.bfloat16)
    for images, name in ((1, "matmul"), (16, "convolution")):
        x = ad.empty(images, 64, 32, 32, dtype=ad.bfloat16)
        steps = planned(lambda b, x=x: ad.compile(layer, backend=b)(x), Everything())
        labels = ["".join(map(str, step.label)).split()[0] for step in steps]
        assert name in labels
        assert len({"matmul", "convolution"} & set(labels)) == 1


def test_what_is_made_of_parameters_alone_is_one_launch() -> None:
    """The scales of batch norms that are evaluated, though each is read before the next is made."""
    layers = [[nn.Conv2d(n, 2 * n, 3), nn.BatchNorm2d(2 * n), nn.ReLU()] for n in (4, 8, 16)]
    model = nn.Sequential(*[layer for group in layers for layer in group]).eval()
    with ad.no_grad():
        counts = launches(model, ad.empty(2, 4, 16, 16))
    assert sorted(counts)[-1] == 3
    assert len(counts) == 1 + 2 * 3  # the scales; convolutions, and what follows each
