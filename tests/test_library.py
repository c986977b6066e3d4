"""Operations of one's own: eager, differentiated, batched and compiled they are what NumPy says."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint.library import (
    CustomOpDef,
    Library,
    cuda_kernel,
    custom_op,
    infer_schema,
    llvm_kernel,
    wrap_triton,
)
from adjoint.library.kernels import compiled_for
from adjoint.utils._python_dispatch import TorchDispatchMode
from adjoint.utils.checkpoint import checkpoint
from tests import toy_device

Tensor = ad.Tensor


@custom_op("tests::cubed", mutates_args=())
def cubed(x: Tensor, by: float = 1.0) -> Tensor:
    return ad.from_numpy(x.numpy() ** 3 * by)


cubed.register_fake(lambda x, by: ad.empty_like(x))


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.by = inputs[1]


cubed.register_autograd(
    lambda ctx, g: (g * 3 * ctx.by * ctx.saved_tensors[0] ** 2, None), setup_context=keep
)


@custom_op("tests::both", mutates_args=())
def both(xs: list[Tensor], flag: bool = True) -> tuple[Tensor, Tensor]:
    """Their sum, and twice the first; what a list of tensors and two results need."""
    x, y = (v.numpy() for v in xs)
    return ad.from_numpy(x + y), ad.from_numpy(2 * x)


both.register_fake(lambda xs, flag: (ad.empty_like(xs[0]), ad.empty_like(xs[0])))
both.register_autograd(lambda ctx, g, h: ([g + 2 * h, g], None))

EVENTS: list[Any] = []  # of `weighed`, whose context keeps what a test names


@custom_op("tests::weighed", mutates_args=())
def weighed(x: Tensor, y: Tensor, keeps: str) -> tuple[Tensor, Tensor]:
    return x * y, x + 2 * y


@weighed.register_fake
def _(x: Tensor, y: Tensor, keeps: str) -> tuple[Tensor, Tensor]:
    return ad.empty_like(x), ad.empty_like(x)


def keep_what_is_named(ctx: Any, inputs: Any, output: Any) -> None:
    x, y, keeps = inputs
    EVENTS.append((ctx.needs_input_grad, ad.is_grad_enabled()))
    given = {"x": x, "y": y, "p": output[0], "s": output[1], "i": y * 1, "-": None}
    ctx.save_for_backward(*[given[name] for name in keeps])
    ctx.place, ctx.other = keeps.find("y") if "y" in keeps else keeps.find("i"), x * 1
    if "p" in keeps:
        ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads("-" not in keeps)


def weighed_back(ctx: Any, g: Any, h: Any) -> Any:
    h = h if isinstance(h, Tensor) else 0  # a builtin, which a compiled function may look up here
    y = ctx.saved_tensors[ctx.place]
    return g * y + h, g * ctx.other + 2 * h, None


weighed.register_autograd(weighed_back, setup_context=keep_what_is_named)

AXPY = """
define void @axpy(ptr %x, ptr %y, ptr %out, i64 %n, double %a) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr double, ptr %x, i64 %i
  %py = getelementptr double, ptr %y, i64 %i
  %po = getelementptr double, ptr %out, i64 %i
  %u = load double, ptr %px
  %v = load double, ptr %py
  %w = fmul double %u, %a
  %s = fadd double %w, %v
  store double %s, ptr %po
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


@pytest.fixture(scope="module")
def axpy() -> CustomOpDef:
    kernel = llvm_kernel(AXPY, "axpy")

    @custom_op("tests::axpy", mutates_args=())
    def axpy(x: Tensor, y: Tensor, a: float) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        out = ad.empty_like(x)
        kernel(x, y, out, x.numel(), a)
        return out

    axpy.register_fake(lambda x, y, a: ad.empty_like(x))
    axpy.register_autograd(
        lambda ctx, g: (g * ctx.a, g, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "a", inputs[2]),
    )
    found: CustomOpDef = axpy
    return found


def loss(x: Any, y: Any) -> Any:
    """Something of all the operations, between others."""
    total, twice = both([cubed(x * 2, by=0.5), y])
    return (total.sin() * twice).sum(-1)


def plain(x: Any, y: Any) -> Any:
    """The same by Adjoint's own operations."""
    c = (x * 2) ** 3 * 0.5
    return ((c + y).sin() * 2 * c).sum(-1)


def operands(*shape: int) -> tuple[Any, Any]:
    ad.manual_seed(0)
    return ad.randn(*shape, dtype=ad.float64), ad.randn(*shape, dtype=ad.float64)


MODES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda fn: fn,
    "compiled": lambda fn: ad.compile(fn),
    "interpreted": lambda fn: ad.compile(fn, backend="interpret"),
    "grad": lambda fn: ad.func.grad(lambda x, y: fn(x, y).sum(), argnums=(0, 1)),
    "compiled grad": lambda fn: ad.compile(ad.func.grad(lambda x, y: fn(x, y).sum())),
    "vmap": lambda fn: ad.vmap(fn),
    "gradients of samples": lambda fn: ad.vmap(ad.func.grad(fn)),
    "compiled vmap": lambda fn: ad.compile(ad.vmap(fn)),
    "forward mode": lambda fn: lambda x, y: ad.func.jvp(fn, (x, y), (y, x)),
    "hessian": lambda fn: ad.func.hessian(lambda x, y: fn(x, y).sum()),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode(mode: str) -> None:
    x, y = operands(3, 4)
    ad.testing.assert_close(MODES[mode](loss)(x, y), MODES[mode](plain)(x, y))


def test_gradcheck() -> None:
    x, y = (v.requires_grad_() for v in operands(2, 3))
    assert ad.autograd.gradcheck(loss, (x, y))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_for_sizes_and_numbers(dynamic: bool) -> None:
    compiled = ad.compile(lambda x, by: cubed(x * 1, by) + 1, dynamic=dynamic)
    for n in (2, 3):
        for by in (1.0, 2.5):
            x = ad.arange(float(n))
            ad.testing.assert_close(compiled(x, by), x**3 * by + 1)


def test_a_training_step() -> None:
    ends = []
    for fn in (cubed, lambda x, by: x**3 * by):
        for wrap in (lambda f: f, ad.compile):
            ad.manual_seed(0)
            net = ad.nn.Linear(3, 3)
            optimizer = ad.optim.SGD(net.parameters(), lr=0.05)

            def step(x: Any, fn: Any = fn, net: Any = net, optimizer: Any = optimizer) -> Any:
                out = fn(net(x), 0.5).pow(2).mean()
                optimizer.zero_grad()
                out.backward()
                optimizer.step()
                return out.detach()

            run = wrap(step)
            ends.append([run(ad.ones(2, 3) * (i + 1)).item() for i in range(4)])
    for other in ends[1:]:
        assert other == pytest.approx(ends[0], rel=1e-5)


KEPT = {  # what its context keeps: what may be written to after the call, and what may not
    "xy": ("ps", "xy"),
    "i": ("xyps", ""),
    "iy-": ("xps", "y"),
    "yp": ("xs", "yp"),
}


@pytest.mark.parametrize("keeps", KEPT)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_a_context_saves_is_all_that_is_kept(keeps: str, compiled: bool) -> None:
    def loss(u: Tensor, v: Tensor, written: str, forward: Any) -> Any:
        x, y = u * 2, v * 1
        product, total = forward(x, y)
        if "p" in keeps:
            total = total.detach()
        tensors = {"x": x, "y": y, "p": product, "s": total}
        if written:
            tensors[written].mul_(v.detach() + 2)
        return (product * 3 + (0 if "-" in keeps else total)).sum()

    def own(u: Any, v: Any, written: str) -> Any:
        return loss(u, v, written, lambda x, y: weighed(x, y, keeps))

    run = ad.compile(own) if compiled else own
    allowed, refused = KEPT[keeps]
    for written in ["", *allowed]:
        u, v = (t.requires_grad_() for t in operands(3))
        want = ad.autograd.grad(
            loss(u, v, written, lambda x, y: (x.clone() * y.clone(), x + 2 * y)), (u, v)
        )
        EVENTS.clear()
        out = run(u, v, written)
        assert EVENTS == [((True, True, False), False)]
        ad.testing.assert_close(ad.autograd.grad(out, (u, v)), want)
    for written in refused:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(u, v, written).backward()
    EVENTS.clear()
    with ad.no_grad():
        run(u, v, "")
    run(u.detach(), v.detach(), "")
    assert not EVENTS


def test_contexts_inside_hooks_transforms_and_checkpoints() -> None:
    x, y = operands(3)
    packed: list[Any] = []

    def pack(t: Tensor) -> Tensor:
        packed.append(t)
        return t

    with ad.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        product = weighed(x.requires_grad_(), y, "iy-")[0]
    assert len(packed) == 2
    assert type(product.grad_fn).__name__ == "GeneratedBackwardFor_tests_weighed_defaultBackward"
    g = checkpoint(lambda x: weighed(x, y, "xy")[0], x, use_reentrant=False)
    ad.testing.assert_close(ad.autograd.grad(g.sum(), x)[0], y)
    for transform in (lambda f: f, ad.compile):
        found = transform(ad.func.grad(lambda x: (weighed(x, y, "xy")[0].mul_(y)).sum()))(
            x.detach()
        )
        ad.testing.assert_close(found, y * y)

    def cubic(op: Any) -> Any:  # what the context computes counts in its second derivative
        return ad.func.grad(lambda x: (ad.func.grad(lambda x: (op(x, x * x)[0]).sum())(x)).sum())

    found = cubic(lambda x, y: weighed(x, y, "i"))(x.detach())
    ad.testing.assert_close(found, cubic(lambda x, y: (x * y,))(x.detach()))
    EVENTS.clear()
    ad.vmap(ad.func.grad(lambda x, y: weighed(x, y, "xy")[0].sum()))(*operands(2, 3))
    assert [needs for needs, _ in EVENTS] == [(True, False, False)]


def test_a_context_sees_lists_and_arguments_by_name() -> None:
    seen: list[Any] = []

    @custom_op("tests::listed", mutates_args=())
    def listed(xs: list[Tensor], y: Tensor, *, by: float = 2.0) -> list[Tensor]:
        return [*(x * by for x in xs), y.clone()]

    listed.register_fake(lambda xs, y, by=2.0: [ad.empty_like(x) for x in (*xs, y)])

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        seen.append((ctx.needs_input_grad[:3], len(inputs), keyword_only_inputs, type(output)))
        ctx.by = keyword_only_inputs["by"]

    def back(ctx: Any, gs: Any) -> Any:
        seen.append(ctx.needs_input_grad[:2])
        return [g * ctx.by for g in gs[:-1]], gs[-1]

    listed.register_autograd(back, setup_context=setup)
    x = ad.ones(2, requires_grad=True)
    sum(t.sum() for t in listed([x, ad.ones(2)], x, by=3.0)).backward()
    assert x.grad.tolist() == [4.0, 4.0]
    assert seen == [((True, False, True), 2, {"by": 3.0}, list), ([True, False], True)]


def test_a_rule_for_batches() -> None:
    calls = []

    @custom_op("tests::rows", mutates_args=())
    def rows(x: Tensor, y: Tensor) -> Tensor:
        calls.append(tuple(x.shape))
        return ad.from_numpy(x.numpy() * y.numpy())

    rows.register_fake(lambda x, y: ad.empty_like(x))
    x, y = operands(4, 3)
    ad.testing.assert_close(ad.vmap(rows)(x, y), x * y)
    assert calls == [(3,)] * 4
    rows.register_vmap(lambda info, in_dims, x, y: (rows(x, y), 0))
    ad.testing.assert_close(ad.vmap(rows, in_dims=(1, 1), out_dims=1)(x, y), x * y)
    assert calls[4:] == [(3, 4)]


def test_native_text(axpy: CustomOpDef) -> None:
    x, y = operands(4, 5)
    for mode in ("eager", "compiled", "grad", "vmap", "forward mode"):
        got = MODES[mode](lambda x, y: axpy(x.t().t(), y, 3.0).sum(-1))(x, y)
        want = MODES[mode](lambda x, y: (x * 3 + y).sum(-1))(x, y)
        ad.testing.assert_close(got, want)


def test_arguments_that_are_written() -> None:
    @custom_op("tests::bump", mutates_args={"x"})
    def bump(x: Tensor) -> None:
        x.add_(1)

    x = ad.zeros(2)
    bump(x)
    compiled = ad.compile(lambda x: bump(x))
    _ = compiled(x), compiled(x)
    assert x.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional"):
        bump.register_autograd(lambda ctx, g: g)


def refused(fn: Callable[..., Any], fake: Callable[..., Any] | None = None) -> CustomOpDef:
    made: CustomOpDef = custom_op(f"tests::refused{len(ad.library.OPERATIONS)}", fn)
    if fake is not None:
        made.register_fake(fake)
    return made


def writes(x: Tensor) -> Tensor:
    x.add_(1)
    return x.clone()


def raises(x: Tensor) -> Tensor:
    raise KeyError("of its own")


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "writes": (lambda: refused(writes)(ad.ones(2)), ValueError, "read-only"),
    "same": (lambda: refused(lambda x: x)(ad.ones(2)), RuntimeError, "may not alias any inputs"),
    "view": (lambda: refused(lambda x: x[1:])(ad.ones(2)), RuntimeError, "may not alias"),
    "number": (lambda: refused(lambda x: 1)(ad.ones(2)), TypeError, "must return a tensor"),
    "own error": (lambda: refused(raises)(ad.ones(2)), KeyError, "of its own"),
    "fake": (
        lambda: refused(lambda x: x.clone(), lambda x: x.new_empty(3))(ad.ones(2)),
        RuntimeError,
        r"returned float32\[2\], where its fake says float32\[3\]",
    ),
    "no fake": (
        lambda: ad.compile(refused(lambda x: ad.from_numpy(x.numpy() + 1)))(ad.ones(2)),
        RuntimeError,
        "cannot be told from tensors without elements.*register_fake",
    ),
    "no derivative": (
        lambda: refused(lambda x: x * 2)(ad.ones(2, requires_grad=True)).sum().backward(),
        RuntimeError,
        "no autograd formula was registered",
    ),
    "name": (lambda: custom_op("nameless", lambda x: x), ValueError, "namespace::name"),
    "strides": (
        lambda: llvm_kernel(AXPY, "axpy")(ad.ones(2, 2).t()[:1], 1, 1, 1, 1.0),
        RuntimeError,
        "contiguous and on the CPU",
    ),
    "bad text": (lambda: llvm_kernel("define void @f( {", "f"), RuntimeError, "assemble"),
    "not Triton's": (lambda: wrap_triton(print)[(1,)](ad.ones(1)), TypeError, "triton.jit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.skipif(ad.cuda.is_available(), reason="there is a GPU")
def test_kernels_say_that_there_is_no_gpu() -> None:
    with pytest.raises(RuntimeError, match="cuda"):
        cuda_kernel('extern "C" __global__ void f() {}', "f")[(1,), (1,)](ad.ones(1))


# -- Triton ---------------------------------------------------------------------------------------


def example_with_a_kernel() -> Any:
    path = Path(__file__).parent.parent / "examples" / "own_kernel.py"
    spec: Any = importlib.util.spec_from_file_location("own_kernel", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def interpret() -> None:
    """A kernel of one's own in Triton's interpreter; called in a process that interprets."""
    example = example_with_a_kernel()
    example.swiglu.register_kernel("cpu", example.swiglu_on_gpu)
    ad.manual_seed(0)
    for n in (1, 1000, 3000):
        x, y = ad.randn(n), ad.randn(n)
        want = ad.nn.functional.silu(x) * y
        ad.testing.assert_close(example.swiglu(x, y), want)
        ad.testing.assert_close(ad.compile(example.swiglu)(x, y), want)
        got = ad.func.grad(lambda x, y: example.swiglu(x, y).sum())(x, y)
        right = ad.func.grad(lambda x, y: (ad.nn.functional.silu(x) * y).sum())(x, y)
        ad.testing.assert_close(got, right)


def test_a_triton_kernel_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) interprets kernels")
    code = "from tests.test_library import interpret; interpret()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_triton_kernel_compiles_without_a_gpu() -> None:
    pytest.importorskip("triton", reason="Triton (`pip install adjoint[cuda]`) compiles kernels")
    own_kernel = example_with_a_kernel()
    x = ad.ones(4)
    given = {"gate": x, "value": x, "out": x, "count": 4, "BLOCK": 64}
    for capability in (80, 90):
        made = compiled_for(own_kernel.swiglu_kernel, given, {}, capability)
        assert made.asm["cubin"]
    with pytest.raises(TypeError, match="'BLOCK' is missing"):
        compiled_for(own_kernel.swiglu_kernel, {k: given[k] for k in list(given)[:4]}, {}, 90)
    with pytest.raises(RuntimeError, match="on cpu, for which Triton makes no code"):
        wrap_triton(own_kernel.swiglu_kernel)[(1,)](x, x, ad.empty(4), 4, BLOCK=64)


# -- a device from outside --------------------------------------------------------------------------


@pytest.fixture
def toy() -> Iterator[None]:
    toy_device.register()
    yield
    toy_device.forget()


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_all_kinds_of_tensors_in_files_go_to_a_device(zipped: bool, weights_only: bool) -> None:
    base = ad.arange(6.0)
    parts = {
        "parameter": ad.nn.Parameter(base[2:5]),
        "tensor": base,
        "view": base.view(3, 2).t(),
        "sparse": ad.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,)),
        "lines": ad.eye(3).to_sparse_csr(),
    }
    file = io.BytesIO()
    ad.save(parts, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    found = ad.load(file, map_location="toy", weights_only=weights_only)
    assert {name: x.device.type for name, x in found.items()} == dict.fromkeys(parts, "toy")
    assert isinstance(found["parameter"], ad.nn.Parameter)
    assert found["tensor"].tolist() == base.tolist()
    assert found["parameter"].tolist() == [2.0, 3.0, 4.0]
    assert found["view"].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert found["sparse"].cpu().to_dense().tolist() == [1.0, 0.0, 2.0]
    assert found["lines"].cpu().to_dense().tolist() == ad.eye(3).tolist()


@pytest.mark.usefixtures("toy")
def test_a_device_from_outside() -> None:
    ad.manual_seed(0)
    x = ad.randn(6, 4)
    there = x.to("toy")
    assert (there.device.type, type(there._array)) == ("toy", toy_device.ToyArray)
    ad.testing.assert_close((there @ there.T).softmax(-1).cpu(), (x @ x.T).softmax(-1))
    with pytest.raises(RuntimeError, match="toy:0 and cpu"):
        _ = there + x
    with pytest.raises(NotImplementedError, match="no kernel of this operation for the device"):
        ad.linalg.cholesky(ad.eye(2, device="toy"))
    ad.manual_seed(1)
    drawn = ad.randn(5, device="toy")
    ad.manual_seed(1)
    assert drawn.tolist() == ad.randn(5).tolist()
    with pytest.raises(ValueError, match="own"):
        ad.library.register_device("cuda", None)  # type: ignore[arg-type]


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("backend", ["interpret", None])
def test_what_is_moved_inside_a_compiled_function_is_on_the_current_device(backend: Any) -> None:
    """A type of device without a number means the same in a recording: tensors there meet it."""
    weight = ad.randn(3, 2, device="toy")
    options = {} if backend is None else {"backend": backend}
    compiled = ad.compile(lambda x: x.to("toy") @ weight, **options)
    x = ad.randn(4, 3)
    for _ in range(2):
        result = compiled(x)
        assert result.device == weight.device
        ad.testing.assert_close(result.cpu(), x @ weight.cpu())


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("compiled", [False, True])
def test_training_on_a_device_from_outside(compiled: bool) -> None:
    def train(device: str) -> list[float]:
        ad.manual_seed(0)
        net = ad.nn.Sequential(
            ad.nn.Linear(4, 8), ad.nn.LayerNorm(8), ad.nn.GELU(), ad.nn.Linear(8, 3)
        )
        net.to(device)
        optimizer = ad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        y = (ad.arange(6) % 3).to(device)

        def step(x: Any) -> Any:
            loss = ad.nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = ad.compile(step) if compiled else step
        return [run(ad.randn(6, 4).to(device)).item() for _ in range(4)]

    before = len(toy_device.PROGRAMS)
    assert train("toy") == pytest.approx(train("cpu"), rel=1e-5)
    assert (len(toy_device.PROGRAMS) > before) == compiled


def test_an_operation_of_others_is_followed_and_takes_keywords() -> None:
    """Declared as PyTorch's `CompositeImplicitAutograd`: no more than a name for a function."""

    def weighed(x: ad.Tensor, by: float = 2.0, plus: float = 0.0) -> ad.Tensor:
        return x * by + plus

    library = Library("tests_transparent", "FRAGMENT")
    library.define("weighed" + infer_schema(weighed, mutates_args=()))
    library.impl("weighed", weighed, "CompositeImplicitAutograd")
    operation = ad.ops.tests_transparent.weighed
    x = ad.tensor([1.0, 3.0], requires_grad=True)
    operation(x, plus=1.0).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert ad.compile(lambda x: operation(x, by=3.0))(x).tolist() == [3.0, 9.0]
    library.define("opaque(Tensor x, float by) -> Tensor")
    library.impl("opaque", lambda x, by: x * by, "CPU")
    assert ad.ops.tests_transparent.opaque(x.detach(), by=4.0).tolist() == [4.0, 12.0]


def test_kernels_may_come_before_the_definition() -> None:
    name = "tests_early::twice"
    ad.library.impl(name, ["CPU"], lambda x: 2 * x)
    ad.library.define(name, "(Tensor x) -> Tensor")
    ad.library.impl(name, "default")(lambda x: 3 * x)
    assert ad.ops.tests_early.twice(ad.ones(1)).tolist() == [2.0]
    elsewhere = Library("tests_early", "FRAGMENT", "MPS")
    elsewhere.define("thrice(Tensor x) -> Tensor")
    elsewhere.impl("thrice", lambda x: 3 * x)
    with pytest.raises(NotImplementedError, match="no kernel is registered for cpu"):
        ad.ops.tests_early.thrice(ad.ones(1))


def _copied(out: ad.Tensor, value: ad.Tensor) -> None:
    out.copy_(value)


def test_a_notation_says_what_is_written_and_returned() -> None:
    define, register = ad.library.define, ad.library.register_kernel
    define("tests_notation::plus", "(Tensor x, float by) -> Tensor")
    define("tests_notation::plus.out", "(Tensor x, float by, Tensor! out) -> ()")
    define("tests_notation::parts", "(Tensor x) -> (Tensor, Tensor? rest)")
    register("tests_notation::plus", "default", lambda x, by: x + by)
    register("tests_notation::plus.out", "default", lambda x, by, out: _copied(out, x + by))
    register("tests_notation::parts", "default", lambda x: (x + 1, None))
    plus, x, out = ad.ops.tests_notation.plus, ad.ones(2), ad.zeros(2)
    assert plus.default(x, 2.0).tolist() == plus(x, 2.0).tolist() == [3.0, 3.0]
    assert plus.out(x, by=4.0, out=out) is None
    assert out.tolist() == [5.0, 5.0]
    first, rest = ad.ops.tests_notation.parts(x.requires_grad_())
    assert (first.tolist(), first.requires_grad, rest) == ([2.0, 2.0], False, None)
    with pytest.raises(AttributeError, match="has no form 'nothing'"):
        _ = plus.nothing
    with pytest.raises(RuntimeError, match="must have '->'"):
        define("tests_notation::wrong", "(Tensor x)")


def test_arguments_taken_by_name_alone() -> None:
    ad.library.define("tests_names::line", "(Tensor x, int n=3, *, float a=2.0) -> Tensor")
    ad.library.impl("tests_names::line", "cpu", lambda x, n=3, *, a=2.0: x * n + a)
    ad.library.register_fake("tests_names::line", lambda x, n=3, *, a=2.0: ad.empty_like(x))

    @custom_op("tests_names::scaled", mutates_args=())
    def scaled(x: Tensor, *, by: float = 2.0) -> Tensor:
        return x * by

    line, x = ad.ops.tests_names.line, ad.ones(1)
    assert (line(x).item(), line(x, 4, a=1.0).item(), line(x, n=5).item()) == (5.0, 5.0, 7.0)
    assert (scaled(x).item(), scaled(x, by=3.0).item()) == (2.0, 3.0)
    assert ad.compile(lambda x: line(x, a=1.0) + scaled(x, by=4.0))(x).item() == 8.0
    with pytest.raises(ValueError, match="'y'.* not found"):
        custom_op("tests_names::wrong", mutates_args=("y",))(lambda x: None)


MISTAKES: dict[str, tuple[Callable[[Library], Any], type[Exception], str]] = {
    "twice": (lambda lib: lib.define("known(Tensor x) -> Tensor"), RuntimeError, "multiple times"),
    "kind of argument": (
        lambda lib: lib.define("a(Tensr x) -> Tensor"), RuntimeError, "unknown type specifier 'Tensr'",
    ),
    "kind of result": (lambda lib: lib.define("a(Tensor x) -> Foo"), RuntimeError, "'Foo'"),
    "bracket": (lambda lib: lib.define("a(Tensor x -> Tensor"), RuntimeError, r"expected \)"),
    "key": (lambda lib: lib.impl("known", abs, "CPUU"), RuntimeError, "dispatch key: CPUU"),
    "autocast": (lambda lib: lib.impl("known", abs, "AutocastCPU"), NotImplementedError, "register_autocast"),
    "second": (lambda lib: Library(lib.ns, "DEF"), RuntimeError, "Only a single library"),
    "kind": (lambda lib: Library(lib.ns, "DEFF"), ValueError, "Unsupported kind"),
    "reserved": (lambda lib: Library("prim", "DEF"), ValueError, "reserved"),
    "kernels alone": (
        lambda lib: Library(lib.ns, "IMPL").define("a(Tensor x) -> Tensor"), RuntimeError, "'IMPL'",
    ),
    "device": (
        lambda lib: custom_op(f"{lib.ns}::a", abs, device_types="foo"), RuntimeError, "Expected one of",
    ),
    "other device": (
        lambda lib: custom_op(f"{lib.ns}::b", lambda x: x * 2, device_types="cuda")(ad.ones(1)),
        NotImplementedError, "Could not run .* with arguments from the 'CPU' backend",
    ),
    "argument": (lambda lib: getattr(ad.ops, lib.ns).known("x"), RuntimeError, "type 'Tensor' for"),
    "too many": (lambda lib: getattr(ad.ops, lib.ns).known(ad.ones(1), 1), RuntimeError, "at most 1"),
    "by name": (lambda lib: getattr(ad.ops, lib.ns).known(ad.ones(1), q=1), RuntimeError, "'q'"),
    "missing": (lambda lib: getattr(ad.ops, lib.ns).known(), RuntimeError, "missing value for"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_definitions_and_calls(name: str) -> None:
    call, kind, message = MISTAKES[name]
    with ad.library._scoped_library("tests_mistakes", "DEF") as lib:
        lib.define("known(Tensor x) -> Tensor")
        lib.impl("known", lambda x: x * 2, "CPU")
        with pytest.raises(kind, match=message):
            call(lib)
    assert "tests_mistakes::known" not in ad.library.OPERATIONS


def test_the_form_that_takes_the_arguments_is_chosen() -> None:
    with ad.library._scoped_library("tests_forms", "FRAGMENT") as lib:
        lib.define("twice(Tensor x) -> Tensor", tags=(ad.Tag.needs_fixed_stride_order,))
        lib.define("twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        lib.define("twice.number(float x, int[2] size=[2,2]) -> Tensor")
        lib.impl("twice", lambda x: x * 2, "CPU")
        lib.impl("twice.out", lambda x, *, out: out.copy_(x * 2), "CPU")
        lib.impl("twice.number", lambda x, size=2: ad.full((size,), x * 2), "CPU")
        twice, out = ad.ops.tests_forms.twice, ad.zeros(2)
        assert twice(ad.ones(2)).tolist() == [2.0, 2.0]
        assert twice(ad.ones(2), out=out) is out
        assert out.tolist() == [2.0, 2.0]
        assert twice(3.0).tolist() == twice(3, size=2).tolist() == [6.0, 6.0]
        assert sorted(twice.overloads()) == ["default", "number", "out"]
        assert twice.default.tags == [ad.Tag.needs_fixed_stride_order]
        assert (
            str(twice.out._schema)
            == "tests_forms::twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
        )
        with pytest.raises(RuntimeError, match="failed to match any schema"):
            twice("x")


def test_a_mode_has_an_operation_do_something_else() -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    @custom_op("tests_modes::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    def rule(mode: Any, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        assert isinstance(mode, Mode)
        return op(*args, **kwargs) + 1  # here the mode is not entered

    ad.library.register_torch_dispatch("tests_modes::twice", Mode, rule)
    assert twice(ad.ones(1)).item() == 2.0
    with Mode():
        assert twice(ad.ones(1)).item() == 3.0


def test_operations_of_pytorchs_own_namespaces_can_be_named() -> None:
    table = {ad.ops._c10d_functional.wait_tensor.default: 1}
    assert table[ad.ops._c10d_functional.wait_tensor.default] == 1
    with pytest.raises(NotImplementedError, match="_c10d_functional::wait_tensor"):
        ad.ops._c10d_functional.wait_tensor(ad.ones(2))
    with pytest.raises(AttributeError, match="no attribute"):
        _ = ad.ops.nobodys.operation


def test_numbers_that_may_be_missing() -> None:
    def scaled(x: ad.Tensor, by: int | float | bool | None = None) -> ad.Tensor:
        return x * (2 if by is None else by)

    assert (
        ad.library.infer_schema(scaled, mutates_args=()) == "(Tensor x, Scalar? by=None) -> Tensor"
    )
    run = ad.library.custom_op("tests_numbers::scaled", scaled, mutates_args=())
    assert run(ad.ones(1)).item() == 2
    assert run(ad.ones(1), None).item() == 2
    assert run(ad.ones(1), 1.5).item() == 1.5
