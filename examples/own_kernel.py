"""A fused SwiGLU as an operation of one's own: NumPy on the CPU, a Triton kernel on a GPU.

python examples/own_kernel.py [--quick]
"""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.library import custom_op, wrap_triton


@custom_op("examples::swiglu", mutates_args=(), device_types="cpu")
def swiglu(gate: ad.Tensor, value: ad.Tensor) -> ad.Tensor:
    """silu(gate) * value, in one pass over memory."""
    x, y = gate.numpy(), value.numpy()
    out = np.negative(x)
    np.exp(out, out=out)
    out += 1
    np.divide(x, out, out=out)
    out *= y
    return ad.from_numpy(out)


@swiglu.register_fake
def _(gate: ad.Tensor, value: ad.Tensor) -> ad.Tensor:
    return ad.empty_like(gate)


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    """What the derivative needs: the operands."""
    ctx.save_for_backward(*inputs)


def derivative(ctx: Any, g: Any) -> Any:
    """Written with Adjoint's operations, so it is compiled, and differentiates again."""
    gate, value = ctx.saved_tensors
    s = gate.sigmoid()
    return g * value * s * (1 + gate * (1 - s)), g * gate * s


swiglu.register_autograd(derivative, setup_context=keep)

if importlib.util.find_spec("triton"):
    import triton
    import triton.language as tl

    @triton.jit
    def swiglu_kernel(gate, value, out, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        """One block of elements."""
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = i < count
        x = tl.load(gate + i, mask=inside)
        y = tl.load(value + i, mask=inside)
        tl.store(out + i, x * tl.sigmoid(x) * y, mask=inside)

    @swiglu.register_kernel("cuda")
    def swiglu_on_gpu(gate: ad.Tensor, value: ad.Tensor) -> ad.Tensor:
        """The same by the kernel; operands are made contiguous, since it counts elements."""
        gate, value = gate.contiguous(), value.contiguous()
        out = ad.empty_like(gate)
        blocks = (triton.cdiv(gate.numel(), 1024),)
        wrap_triton(swiglu_kernel)[blocks](gate, value, out, gate.numel(), BLOCK=1024)
        return out


class FeedForward(nn.Module):
    """Two products with a gate between them, as in language models of today."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Any) -> Any:
        return self.down(swiglu(*self.up(x).chunk(2, -1)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    steps = 30 if parser.parse_args().quick else 300

    device = "cuda" if ad.cuda.is_available() else "cpu"
    ad.manual_seed(0)
    gate, value = ad.randn(5, 7).to(device), ad.randn(5, 7).to(device)
    ad.testing.assert_close(swiglu(gate, value), nn.functional.silu(gate) * value)

    net = FeedForward(8, 32).to(device)
    optimizer = ad.optim.AdamW(net.parameters(), lr=1e-2)
    x = ad.randn(64, 8).to(device)
    y = x.roll(1, -1) * x

    @ad.compile
    def step() -> Any:
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    first = step().item()
    for _ in range(steps):
        loss = step()
    print(f"loss {first:.3f} -> {loss.item():.3f}")
    if not loss.item() < first:
        raise SystemExit("the network did not learn")


if __name__ == "__main__":
    main()
