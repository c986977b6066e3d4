"""Plans of whole steps for the GPU: what is one launch stays one, whoever changes the compiler."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import chosen
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.ops.nn.distances import counted_pairs
from adjoint.models.gpt2 import GPT2, GPT2Config
from adjoint.nn import functional as F


class CpuTarget(TritonTarget):
    """The GPU's target for memory of the CPU's."""

    name = "triton on the cpu"
    device = "cpu"


class Planned(BaseException):
    """A plan was made."""


def labels(run: Any, *given: Any) -> Counter[str]:
    """What the launches of a function's plan do."""
    found: Counter[str] = Counter()

    def make(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            plan = plan_for(task, CpuTarget(), chosen(mode, options))
            found.update("".join(map(str, step.label)) for step in plan.steps)
            raise Planned

        return executable

    register_backend("planned-steps", make)
    with pytest.raises(Planned):
        ad.compile(run, backend="planned-steps")(*given)
    return found


def test_a_step_of_a_transformer() -> None:
    net = GPT2(GPT2Config(vocab_size=2048, n_layer=2, n_embd=128, n_head=2, dropout=0.0))
    optimizer = ad.optim.AdamW(net.parameters())
    tokens = ad.zeros(16, 1024, dtype=ad.int64)

    def step(x: Any) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16):
            loss = F.cross_entropy(net(x).flatten(0, 1), x.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    found = labels(step, tokens)
    assert sum(n for label, n in found.items() if "lerp" in label) == 1  # all parameters
    # Rows of the tied embedding are added to the head's gradient, not to zeros.
    assert not found["zeros"]
    # Five norms: rows reduced, columns summed, and what follows, in one kernel each.
    norms = [n for label, n in found.items() if "sub+mul+sub+mul" in label and "sum" in label]
    assert sum(norms) == 5
    assert sum(n for label, n in found.items() if label in ("cast+mul+sum", "mul+sum")) == 0
    # Attention's gradients are written side by side: nothing puts them there but their bias's sum.
    assert not [label for label in found if "where" in label and label.startswith("eq+where+eq")]
    assert found["cast+sum"] == 2


@pytest.mark.parametrize("length", [37, 197])
def test_norms_over_odd_lengths_take_as_many_launches_as_others(length: int) -> None:
    norms, layers = ([make() for _ in range(2)] for make in (norm_of_128, linear_of_128))
    leaves = [p for module in (*norms, *layers) for p in module.parameters()]

    def step(x: Any) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16):
            for norm, layer in zip(norms, layers, strict=True):
                x = x + layer(norm(x))
        return ad.autograd.grad(x.square().sum(), leaves)

    found, usual = (sum(labels(step, ad.zeros(64, n, 128)).values()) for n in (length, 64))
    assert found == usual


def norm_of_128() -> ad.nn.Module:
    return ad.nn.LayerNorm(128)


def linear_of_128() -> ad.nn.Module:
    return ad.nn.Linear(128, 128)


def test_layers_over_sequences() -> None:
    layer = ad.nn.TransformerEncoderLayer(
        128, 2, 256, 0.0, "gelu", batch_first=True, norm_first=True
    )
    x = ad.zeros(16, 48, 128)

    def step(x: Any) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16):
            out = layer(x)
        return ad.autograd.grad(out.float().square().sum(), tuple(layer.parameters()))

    found = labels(step, x)
    assert sum(n for label, n in found.items() if label.startswith("matmul+add")) == 4  # biases
    assert not found["add"]
    assert not found["cat"]  # attention's gradients are written side by side


def test_rotary_positions_are_part_of_one_kernel() -> None:
    rows = ad.randn(256, 256).requires_grad_()
    angle = ad.randn(1024, 64)

    def step(x: Any) -> Any:
        h = (x @ rows).view(16, 1024, 4, 64).transpose(1, 2)
        a, b = h.chunk(2, -1)
        turned = h * angle.cos() + ad.cat([-b, a], -1) * angle.sin()
        z = turned.transpose(1, 2).reshape(16, 1024, 256) @ rows
        return ad.autograd.grad((z * z).sum(), (rows,))

    found = labels(step, ad.zeros(16 * 1024, 256))
    assert not found["cat"]
    assert not found["neg"]
    assert sum(n for label, n in found.items() if "neg" in label) == 2  # forward and backward


def test_gradients_of_turned_queries_lie_as_products_read_them() -> None:
    weights = [ad.randn(n, 256).requires_grad_() for n in (256, 64, 64)]
    angle = ad.randn(512, 64)

    def turned(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return (x * angle.cos() + ad.cat([-b, a], -1) * angle.sin()).to(x.dtype)

    def step(x: Any) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16):
            q, k, v = (F.linear(x, w).view(4, 512, -1, 64).transpose(1, 2) for w in weights)
            y = F.scaled_dot_product_attention(
                turned(q), turned(k), v, is_causal=True, enable_gqa=True
            )
        return ad.autograd.grad((y * y).sum(), (x, *weights))

    assert not labels(step, ad.zeros(4, 512, 256).requires_grad_())["clone"]


def test_pairs_of_rows_are_counted_by_one_kernel_and_compared_by_another() -> None:
    def distances(x: Any) -> Any:
        one, other = (x.index_select(0, side) for side in counted_pairs(x))
        return ad.linalg.vector_norm(one - other, dim=1)

    assert sum(labels(distances, ad.randn(60, 7)).values()) == 2


@pytest.mark.parametrize("n", [2, 3, 4, 5, 33, 64, 100, 501])
def test_pairs_are_those_of_the_upper_triangle(n: int) -> None:
    x = ad.zeros(n, 1)
    assert ad.equal(ad.stack(counted_pairs(x)), ad.triu_indices(n, n, 1))
