"""What fusion must reach: how many launches steps of known models take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.engine.backends.llvm.ir.machine import CodeMachine, this_machine, writing_for
from adjoint.engine.backends.llvm.loops.pieces import lanes_of
from adjoint.engine.backends.llvm.target import LLVM
from adjoint.engine.compiler.loops.ir import LOAD, Form
from adjoint.engine.compiler.loops.schedule import is_costly
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.schedule.build import plan_for
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.ops.nn.normalization import pull_back
from adjoint.nn import functional as F


def report(fn: Any, *args: Any) -> list[dict[str, Any]]:
    """The steps of a function's program."""
    compiled = ad.compile(fn)
    compiled(*args)
    lines: list[dict[str, Any]] = compiled.latest.executable.image.report
    return lines


def kernels(lines: list[dict[str, Any]]) -> list[str]:
    return [line["what"] for line in lines if line["kind"] == "kernel"]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x * 2 + 1).exp() / (x.abs() + 1),
        lambda x: ad.softmax(x, -1),
        lambda x: ad.softmax(x, 0),
        lambda x: F.log_softmax(x, 1),
        lambda x: F.layer_norm(x, (32,)),
        lambda x: F.gelu(x + x.amax(1, keepdim=True)),
        lambda x: x.var(1),
        lambda x: F.normalize(x, dim=1),
        lambda x: x.transpose(0, 1).sin().sum(0),
    ],
    ids=[
        "chain", "softmax", "columns", "log_softmax", "layer_norm", "gelu", "var", "normalize",
        "permuted",
    ],
)  # fmt: skip
def test_patterns_are_one_kernel(fn: Any) -> None:
    lines = report(fn, ad.randn(16, 32))
    assert len(lines) == 1, kernels(lines)
    assert lines[0]["kind"] == "kernel"


@pytest.mark.parametrize(
    ("fn", "kept"),
    [
        (lambda x: ad.softmax(x, -1), ["exp"]),
        (lambda x: ad.softmax(x, 0), ["exp"]),
        (lambda x: (x - x.sin().mean()).cos(), []),  # nothing costly is needed twice
        (lambda x: F.log_softmax(x, -1), []),
        (lambda x: x.sigmoid() / x.sigmoid().sum(1, keepdim=True) * x, ["sigmoid"]),
        (lambda x: (x.tanh() - x.tanh().mean(1, keepdim=True)).amax(1), []),  # written nowhere
        (lambda x: x.copy_(ad.softmax(x, -1)), []),  # memory that others see
    ],
    ids=["rows", "columns", "once", "log", "sigmoid", "reduced", "in place"],
)
@pytest.mark.usefixtures("anew")
def test_costly_values_are_kept_between_loop_nests(fn: Any, kept: list[str]) -> None:
    """Note [kept values]; the results are those of eager execution either way."""
    x = ad.randn(9, 37)
    want = fn(x.clone())
    compiled = ad.compile(fn)
    np.testing.assert_allclose(compiled(x).numpy(), want.numpy(), rtol=2e-6, atol=1e-7)
    found = []
    for step in compiled.latest.executable.plan.steps:
        for kernel in step.kernels:
            held = [id(kernel.refs[r].buffer) for _, r in kernel.form.stores]
            for v, r in kernel.form.stores:
                op = kernel.form.ops[v]
                if held.count(id(kernel.refs[r].buffer)) > 1 and is_costly(op.name):
                    found.append(op.name)
    assert found == kept


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def test_a_transformer_block_has_a_kernel_per_part() -> None:
    block = Block(32, 4)
    with ad.no_grad():  # nothing kept for a backward pass
        lines = report(lambda x: block(x), ad.randn(2, 16, 32))
    products = [line for line in lines if line["what"].startswith("matmul")]
    parts = kernels(lines)
    assert len(products) == 6
    assert not [line for line in lines if line["kind"] == "call"]
    # norm; bias of q, k, v; scale; softmax but for its sum; by that sum, after the product; bias,
    # residual and norm; bias and gelu; residual
    assert sum("rsqrt" in p for p in parts) == 2, parts
    assert sum("exp" in p for p in parts) == 1, parts
    assert sum("erf" in p for p in parts) == 1, parts
    assert len(parts) <= 8, parts


def test_all_parameters_are_updated_by_one_launch() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = ad.optim.AdamW(net.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    lines = report(step, ad.randn(4, 8), ad.tensor([0, 1, 2, 3]))
    updates = [line for line in lines if "addcdiv" in line["what"]]
    assert [line["times"] for line in updates] == [6]


def test_a_recurrent_layer_is_one_loop() -> None:
    lstm = nn.LSTM(8, 16, num_layers=2)
    with ad.no_grad():
        lines = report(lambda x: lstm(x)[0], ad.randn(12, 4, 8))
    assert [line["times"] for line in lines if line["kind"] == "loop"] == [12, 12]
    assert not [line for line in lines if line["kind"] == "call"]


ACTIVATIONS = [F.gelu, F.silu, F.elu, F.selu, ad.erf, ad.sin, ad.atan]


@pytest.mark.parametrize("shape", [(8, 10), (3, 1), (67, 129)])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda fn: fn.__name__)
def test_two_kept_values_and_results_over_them(activation: Any, shape: tuple[int, int]) -> None:
    """Each result is written over a kept value that the other result may still need."""
    x, b = ad.randn(shape), ad.randn(shape[-1:], requires_grad=True)

    def entropy(x: Any) -> Any:
        u = activation(x * b)
        return (u.softmax(-1) * u.log_softmax(-1)).sum(-1).mean()

    def divergence(x: Any) -> Any:
        u = activation(x * b)
        return F.cross_entropy(u, u.softmax(-1))

    for fn in (entropy, divergence):
        got, want = ad.compile(fn)(x), fn(x)
        np.testing.assert_allclose(got.item(), want.item(), rtol=1e-5, atol=1e-6)
        for g, w in zip(ad.autograd.grad(got, b), ad.autograd.grad(want, b), strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dims", [(1, 0, 2), (0, 1, 2), (2, 1, 0), (0, 2, 1)])
@pytest.mark.parametrize("shape", [(3, 5, 8), (2, 7, 3), (4, 1, 6), (1, 4, 5)])
def test_permuted_parts_are_made_side_by_side(dims: Any, shape: tuple[int, ...]) -> None:
    """Parts that are views of what loops and products make, one of them a result of its own too."""
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    w = rng.standard_normal((shape[-1], shape[-1])).astype(np.float32)

    def joined(m: Any, x: Any, y: Any, w: Any, axis: int) -> Any:
        total = (x * y)[..., :1]
        parts = [x * 2 + 1, m.exp(y) - total, x @ w, x * 0 + y[:1]]
        turned = [m.transpose(part, dims) for part in parts]
        flat = [m.reshape(part, (part.shape[0], -1, part.shape[-1])) for part in turned]
        return m.concatenate(flat, axis=axis), parts[1]

    class Names:
        """NumPy's names for what is used of both."""

        exp = ad.exp
        transpose = staticmethod(lambda x, dims: x.permute(dims))
        reshape = staticmethod(lambda x, shape: x.reshape(shape))
        concatenate = staticmethod(lambda xs, axis: ad.cat(xs, axis))

    for axis in range(3):

        def run(x: Any, y: Any, w: Any, axis: int = axis) -> Any:
            return joined(Names, x, y, w, axis)

        got = ad.compile(run)(*map(ad.from_numpy, (x, y, w)))
        want = joined(np, x, y, w, axis)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-5)


def forms(compiled: Any) -> list[Form]:
    """The kernels of a program that is planned for the machine of the moment."""
    plan = plan_for(compiled.latest.executable.task, LLVM, Options())
    return [step.form for step in plan.steps if isinstance(step, Launch)]


def crowded(x: Any, y: Any) -> Any:
    """One kernel in which two dozen values are needed at once."""
    first = x.abs()
    made = [(first * (k + 1)).sqrt() for k in range(24)]
    return tuple(a * b + y for a, b in zip(made, made[::-1], strict=True))


def chain(x: Any, y: Any) -> Any:
    """As many operations, each on the result of the one before it."""
    for _ in range(24):
        x = (x * 1.1).sqrt() - y
    return x


@pytest.mark.parametrize(
    ("registers", "bits", "lanes"), [(32, 128, 4), (16, 256, 8), (32, 512, 16), (1024, 128, 16)]
)
def test_crowded_kernels_take_fewer_lanes(registers: int, bits: int, lanes: int) -> None:
    x = ad.linspace(-1, 1, 101)
    machine = CodeMachine(this_machine().features, bits, registers, by_lane=False)
    for fn, wanted in ((crowded, lanes), (chain, 16)):
        compiled = ad.compile(fn)
        compiled(x, x)
        with writing_for(machine):
            assert [lanes_of(form) for form in forms(compiled)] == [wanted]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64], ids=str)
def test_crowded_kernels_are_right_at_every_length(dtype: Any) -> None:
    compiled = ad.compile(crowded, dynamic=False)
    for size in (3, 5, 67):
        x, y = ad.linspace(-1, 1, size, dtype=dtype), ad.linspace(2, 3, size, dtype=dtype)
        first = np.abs(x.numpy())
        made = [np.sqrt(first * (k + 1)) for k in range(24)]
        wanted = [a * b + y.numpy() for a, b in zip(made, made[::-1], strict=True)]
        tolerance = 1e-5 if dtype is ad.float32 else 1e-13
        got = [t.numpy() for t in compiled(x, y)]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("width", [5, 16, 33])
@pytest.mark.parametrize("reduce", ["mean", "amax"])
def test_reductions_of_picked_rows_go_along_the_rows(reduce: str, width: int) -> None:
    """Means of neighbours in a graph, bags of embeddings: what an index picks lies side by side."""
    rng = np.random.default_rng(0)
    table, index = rng.standard_normal((50, width), np.float32), rng.integers(0, 50, (40, 8))
    compiled = ad.compile(lambda x, picks: getattr(x[picks], reduce)(1))
    got = compiled(ad.tensor(table), ad.tensor(index)).numpy()
    wanted = getattr(table[index].astype(np.float64), {"mean": "mean", "amax": "max"}[reduce])(1)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
    (form,) = forms(compiled)
    assert not form.rows
    (picked,) = [op.args[0][1] for op in form.ops if op.kind == LOAD and len(op.args) > 1]
    assert form.refs[picked][1][form.outer - 1] == 1


@pytest.mark.parametrize(("rows", "classes"), [(64, 16), (33, 21), (16, 64)])
def test_losses_go_along_rows_of_logits(rows: int, classes: int) -> None:
    """However many numbers a loss knows of each row: they are few beside the logits."""
    rng = np.random.default_rng(0)
    x = ad.tensor(rng.standard_normal((rows, classes), np.float32))
    of_rows = [ad.tensor(rng.standard_normal((rows, 1), np.float32)) for _ in range(6)]

    def fn(x: Any, *of_rows: Any) -> Any:
        a, b, c, d, e, f = of_rows
        return ((x - a - b).exp() * c + d) * e - f

    compiled = ad.compile(fn)
    np.testing.assert_allclose(compiled(x, *of_rows).numpy(), fn(x, *of_rows).numpy(), rtol=2e-5)
    (form,) = forms(compiled)
    whole = [classes for _, classes in form.refs if all(classes)]
    assert len(whole) == 2
    assert [classes[-1] for classes in whole] == [1, 1]


def test_the_derivative_of_a_norm_is_one_kernel() -> None:
    """Of the input: both sums along a row; what is known of rows alone is a kernel of its own."""
    g, x, w = ad.randn(24, 32), ad.randn(24, 32), ad.randn(32)
    mean, variance = x.mean(1, keepdim=True), x.var(1, keepdim=True, correction=0)

    def fn(g: Any, x: Any, w: Any, mean: Any, variance: Any) -> Any:
        return pull_back((g * w, None, None), x, (mean, variance), (1,), 1e-5)

    assert len(report(fn, g, x, w, mean, variance)) == 2
    got = ad.compile(fn)(g, x, w, mean, variance).numpy()
    given = (t.numpy().astype(np.float64) for t in (g * w, x, mean, variance))
    cotangent, exact, mean, variance = given
    standard = (exact - mean) / np.sqrt(variance + 1e-5)
    along = (cotangent * standard).mean(1, keepdims=True)
    wanted = (cotangent - cotangent.mean(1, keepdims=True) - standard * along) / np.sqrt(
        variance + 1e-5
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5)
