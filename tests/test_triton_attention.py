"""Attention on the GPU: which of it a library does, and which our own kernels."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.backends.array.libraries.attention import CudnnAttention
from adjoint.engine.backends.triton.target import TritonTarget
from adjoint.engine.compiler.executors import register_backend
from adjoint.engine.compiler.options import chosen
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.nn import functional as F


class CpuTarget(TritonTarget):
    """The GPU's target for memory of the CPU's."""

    name = "triton on the cpu"
    device = "cpu"


class Attends:
    """Somebody who runs every attention."""

    def attention_room(self, call: CudnnAttention) -> int:
        return 8


class Planned(BaseException):
    """A plan was made."""


def planned(run: Any, *given: Any) -> list[Any]:
    """The steps of a function's plan."""
    steps: list[Any] = []

    def make(mode: str, options: dict[str, Any]) -> Any:
        def executable(task: Any) -> Any:
            steps.extend(plan_for(task, CpuTarget(attender=Attends()), chosen(mode, options)).steps)
            raise Planned

        return executable

    register_backend("planned-attention", make)
    with pytest.raises(Planned):
        ad.compile(run, backend="planned-attention")(*given)
    return steps


def both(q: Any, k: Any, v: Any, **how: Any) -> Any:
    """Attention and its gradients."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, **how)
    return ad.autograd.grad((out * out).float().sum(), (q, k, v))


# length, size, dtype, options -> whether a library does it
CASES = {
    "wide heads": (512, 128, ad.bfloat16, {"is_causal": True}, True),
    "long": (2048, 64, ad.float16, {}, True),
    "short and narrow": (512, 64, ad.bfloat16, {"is_causal": True}, False),
    "float32": (512, 128, ad.float32, {}, False),
    "odd heads": (512, 100, ad.bfloat16, {}, False),
    "heads of 256": (512, 256, ad.bfloat16, {}, True),
    "a mask": (512, 128, ad.bfloat16, {"attn_mask": ad.ones(512, 512).bool()}, False),
}


@pytest.mark.parametrize("name", CASES)
def test_long_sequences_and_wide_heads_are_a_librarys(name: str) -> None:
    length, size, dtype, how, wanted = CASES[name]
    q, k, v = (ad.empty(1, 1, length, size, dtype=dtype) for _ in range(3))
    steps = planned(lambda q, k, v: both(q, k, v, **how), q, k, v)
    calls = [s for s in steps if s.kernels and isinstance(s.kernels[0], CudnnAttention)]
    assert [c.kernels[0].kind for c in calls] == (
        ["attention", "attention backward"] if wanted else []
    )
    # The library finds the sums of gradients times results by itself.
    assert any("sum" in "".join(map(str, s.label)) for s in steps) is not wanted


def test_the_same_bits_are_ours() -> None:
    q, k, v = (ad.empty(1, 1, 512, 128, dtype=ad.bfloat16) for _ in range(3))
    ad.use_deterministic_algorithms(True)
    try:
        steps = planned(both, q, k, v)
    finally:
        ad.use_deterministic_algorithms(False)
    calls = [
        s.kernels[0].kind for s in steps if s.kernels and isinstance(s.kernels[0], CudnnAttention)
    ]
    assert calls == ["attention"]


def test_second_derivatives_are_ours() -> None:
    """The logsumexp has a cotangent then, of which a library is not told."""
    given = [ad.empty(1, 1, 512, 128, dtype=ad.bfloat16) for _ in range(3)]

    def twice(*given: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in given]
        out = F.scaled_dot_product_attention(*leaves, is_causal=True).float()
        first = ad.autograd.grad((out * out).sum(), leaves, create_graph=True)
        return ad.autograd.grad(sum((g * g).float().sum() for g in first), leaves)

    steps = planned(twice, *given)
    calls = [s.kernels[0] for s in steps if s.kernels]
    kinds = [call.kind for call in calls if isinstance(call, CudnnAttention)]
    assert kinds == ["attention"]
    assert any(s.function.startswith("attention") and s.text for s in steps)


@pytest.mark.slow
def test_a_library_and_our_kernels_agree() -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) has the interpreter")
    importlib.import_module("tests.test_triton_interpreted").in_a_process(
        ("long attention of halves",), ()
    )
