"""Rules that programs written for PyTorch trust: gradients of what is overwritten, layouts, errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.ao.nn.intrinsic import qat
from adjoint.engine.core.state import forks
from adjoint.errors import BoundsError

OVERWRITES: dict[str, Callable[[ad.Tensor], Any]] = {
    "zero_": lambda b: b.zero_(),
    "fill_": lambda b: b.fill_(3.0),
    "copy_": lambda b: b.copy_(ad.arange(3.0)),
    "normal_": lambda b: b.normal_(),
    "uniform_": lambda b: b.uniform_(),
    "bernoulli_": lambda b: b.bernoulli_(0.5),
    "exponential_": lambda b: b.exponential_(),
    "setitem": lambda b: b.__setitem__(..., 2.0),
}


@pytest.mark.parametrize("name", OVERWRITES)
def test_what_was_overwritten_has_a_gradient_of_zero(name: str) -> None:
    """It was used, so it has a gradient, of zero; what is added afterwards counts."""

    def used(a: ad.Tensor) -> ad.Tensor:
        b = a * 2
        OVERWRITES[name](b)
        return b.sum()

    for fn in (used, ad.compile(used)):
        a = ad.ones(3, requires_grad=True)
        fn(a).backward()
        assert a.grad is not None
        assert a.grad.tolist() == [0, 0, 0]
    a = ad.ones(3, requires_grad=True)
    b = a * 2
    OVERWRITES[name](b)
    (g,) = ad.autograd.grad((b + 5 * a).sum(), a, create_graph=True)
    assert g.tolist() == [5, 5, 5]


def test_overwritten_in_transforms() -> None:
    """The same through levels, where a product of both is left."""

    def product(x: ad.Tensor) -> ad.Tensor:
        y = x * 2
        y.zero_()
        return (y * x + x).sum()

    x = ad.arange(6.0).reshape(2, 3)
    assert ad.func.grad(product)(x).tolist() == ad.ones(2, 3).tolist()
    assert ad.func.vmap(ad.func.grad(product))(x).tolist() == ad.ones(2, 3).tolist()
    assert ad.func.jvp(product, (x,), (ad.ones(2, 3),))[1].item() == 6


@pytest.mark.parametrize(
    "call",
    [
        lambda: ad.zeros(3).index_add(0, ad.tensor([5]), ad.ones(1)),
        lambda: ad.zeros(3, 2).index_add(0, ad.tensor([-1]), ad.ones(1, 2)),
        lambda: ad.zeros(3).index_select(0, ad.tensor([5])),
        lambda: F.embedding(ad.tensor([9]), ad.ones(3, 2)),
        lambda: F.embedding_bag(ad.tensor([[0, 9]]), ad.ones(3, 2)),
        lambda: F.embedding_bag(ad.tensor([0, -1]), ad.ones(3, 2), ad.tensor([0]), mode="max"),
    ],
)
def test_an_index_that_names_no_row(call: Callable[[], Any]) -> None:
    """IndexError and RuntimeError: which one PyTorch raises depends on the shapes."""
    with pytest.raises(BoundsError, match="out of bounds") as met:
        call()
    assert isinstance(met.value, IndexError)
    assert isinstance(met.value, RuntimeError)
    with pytest.raises(BoundsError, match="out of bounds"):
        ad.compile(call)()


def test_whole_multipliers_of_masks() -> None:
    """A mask's multiplier is any whole number; only whether it is zero counts."""
    a, b = ad.tensor([True, False, False]), ad.tensor([True, True, False])
    for alpha, wanted in [(2, [1, 1, 0]), (0, [1, 0, 0]), (-1, [1, 1, 0]), (True, [1, 1, 0])]:
        assert a.add(b, alpha=alpha).tolist() == wanted
        assert ad.compile(lambda x, y, n=alpha: x.add(y, alpha=n))(a, b).tolist() == wanted
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        a.add(b, alpha=1.5)


def test_masked_fill_of_transposed_tensors_is_contiguous() -> None:
    """So that `view` works on it."""
    x = ad.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    for fn in (ad.masked_fill, ad.compile(ad.masked_fill)):
        out = fn(x, x > 7, 0)
        assert out.stride() == (6, 3, 1)
        assert out.view(4, 6).sum().item() == 28
    kept = x.masked_fill_(x > 7, 0)
    assert kept is x
    assert x.stride() == (1, 12, 4)


def test_cosine_similarity_counts_the_dtype_of_0d_tensors() -> None:
    """Both tensors are converted to one dtype, of whatever rank they are."""
    assert F.cosine_similarity(ad.tensor(2.0), ad.ones(2).bfloat16(), dim=-1).dtype == ad.float32


@pytest.mark.parametrize("size", [4, 1000])
@pytest.mark.parametrize(
    "name",
    "elu softplus mish selu celu hardtanh hardswish hardsigmoid softshrink hardshrink relu6".split(),
)
def test_activations_keep_the_layout(name: str, size: int) -> None:
    """Those that fill masks on their way too, eagerly as compiled."""
    x = ad.randn(2, 3, size).permute(2, 0, 1)
    fn = getattr(F, name)
    assert fn(x).stride() == ad.compile(fn)(x).stride() == x.stride()


@pytest.mark.parametrize("size", [4, 1000])
def test_the_first_operand_decides_how_a_result_lies(size: int) -> None:
    """As in PyTorch, so that `(x.transpose(1, 2) + y).transpose(1, 2).view(...)` works."""
    turned, plain = ad.randn(2, 3, size).transpose(1, 2), ad.randn(2, size, 3)
    rows, lines = ad.randn(2, 1, 3), ad.randn(3)
    sums = {
        (turned, plain): turned,
        (plain, turned): plain,
        (rows, turned): turned,
        (turned, lines): turned,
        (lines, turned): turned,
        (turned.double(), plain): turned,
        (turned, plain > 0): turned,
    }
    for (x, y), like in sums.items():
        for fn in (ad.mul, ad.compile(ad.mul)):
            out = fn(x, y)
            assert out.stride() == like.stride()
            assert ad.equal(out, x.contiguous() * y.contiguous())


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm", "batch_norm"])
def test_norms_of_transposed_tensors_are_contiguous(name: str) -> None:
    """Where channels do not lie innermost; values are those of a contiguous copy."""
    calls: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
        "layer_norm": lambda x: F.layer_norm(x, (4,)),
        "rms_norm": lambda x: F.rms_norm(x, (4,)),
        "group_norm": lambda x: F.group_norm(x, 3),
        "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    }
    fn = calls[name]
    x = ad.randn(2, 4, 3).transpose(1, 2)
    for each in (fn, ad.compile(fn)):
        out = each(x)
        assert out.is_contiguous()
        assert ad.allclose(out, fn(x.contiguous()), atol=1e-6)


def test_sorted_tensors_lie_as_they_did() -> None:
    """Values and positions."""
    x = ad.randn(2, 3, 4).permute(2, 0, 1)
    for fn in (ad.sort, ad.compile(ad.sort)):
        values, at = fn(x, 0)
        assert values.stride() == at.stride() == x.stride()
        assert ad.equal(values, x.contiguous().gather(0, at.contiguous()))
    assert ad.argsort(x).stride() == x.stride()


def test_batch_norms_under_quantisation_aware_training_freeze() -> None:
    """As at the end of PyTorch's recipe: statistics stay, `train()` does not bring them back."""
    q = ad.ao.quantization
    model = ad.nn.Sequential(ad.nn.Conv2d(1, 2, 1), ad.nn.BatchNorm2d(2)).train()
    q.fuse_modules_qat(model, [["0", "1"]], inplace=True)
    model.qconfig = q.get_default_qat_qconfig("qnnpack")
    prepared = q.prepare_qat(model)
    layer = prepared[0]
    assert isinstance(layer, qat.ConvBn2d)
    for freeze, still in ((qat.freeze_bn_stats, True), (qat.update_bn_stats, False)):
        prepared.apply(freeze)
        prepared.train()
        before = layer.bn.running_mean.clone()
        prepared(ad.randn(4, 1, 3, 3) + 5)
        assert ad.equal(before, layer.bn.running_mean) is still
        assert layer.bn.training is not still


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        (ad.int16, ad.tensor(70000), False),
        (ad.int16, ad.tensor(7), True),
        (ad.int8, ad.tensor(127.5), False),
        (ad.int8, ad.tensor(2.75), True),
        (ad.int8, ad.tensor(float("nan")), False),
        (ad.uint8, ad.tensor(-255), True),
        (ad.uint8, ad.tensor(-256), False),
        (ad.float16, ad.tensor(70000.0), False),
        (ad.float16, ad.tensor(float("inf")), True),
        (ad.float32, ad.tensor(1e39, dtype=ad.float64), False),
        (ad.bool, ad.tensor(5), True),
        (ad.float32, ad.tensor(1 + 2j), False),
    ],
)
def test_elements_that_do_not_fit_are_refused(dtype: Any, value: ad.Tensor, fits: bool) -> None:
    """A 0-d tensor fills as a number does; it was cut to size, or its imaginary part lost."""
    mask = ad.tensor([True, False, True])

    def by_mask(x: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        x = x.clone()
        x[mask] = v
        return x

    calls: list[Callable[..., Any]] = [by_mask, lambda x, v: x.masked_fill(mask, v)]
    for call in calls:
        for fn in (call, ad.compile(call)):
            x = ad.zeros(3, dtype=dtype)
            if fits:
                number = value.to(dtype).item()
                assert fn(x, value).tolist() == [number, 0, number]
            else:
                with pytest.raises(RuntimeError, match="without overflow"):
                    fn(x, value)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_nobody_uses_give_no_nan(dynamic: bool) -> None:
    """A compiled function's results without a cotangent have no part in gradients, as eagerly."""

    def several(x: ad.Tensor) -> tuple[ad.Tensor, ...]:
        y = x * 3
        return y * 2, y.log(), (y.sqrt() / y).sum(), y.sin()

    compiled = ad.compile(several, dynamic=dynamic)
    for used in ([0], [3], [0, 3], [0, 1, 2, 3], [1]):
        for size in (3, 5, 8):
            found: list[Any] = []
            for fn in (several, compiled):
                x = (ad.arange(size) - 1.0).requires_grad_()
                results = fn(x)
                sum((results[k].sum() for k in used), ad.zeros(())).backward()
                found.append(x.grad)
            assert ad.allclose(*found, equal_nan=True)
            assert 1 in used or bool(found[1].isfinite().all())
    second: list[Any] = []
    for fn in (several, compiled):
        x = (ad.arange(3) - 1.0).requires_grad_()
        (g,) = ad.autograd.grad(fn(x)[3].sum(), x, create_graph=True)
        second.append(ad.autograd.grad(g.sum(), x)[0])
    assert ad.allclose(*second)


def test_forks_wait_for_locks_that_are_made_while_they_wait() -> None:
    """As a module makes them that another thread imports and then uses."""

    class MakesAnother:
        made: Any = None
        count = 0

        def acquire(self, timeout: float) -> bool:
            self.count += 1
            if self.made is None:
                self.made = forks.lock(forks.LockOrder.ASSEMBLER)
                self.made.acquire()  # by that other thread, which gives it back afterwards
            return True

        def release(self) -> None:
            if self.count == 1:
                self.made.release()

    waiting = forks._note(MakesAnother(), forks.LockOrder.IMPORTS)
    forks._before()
    try:
        assert waiting.count == 2
        assert waiting.made.locked()
    finally:
        forks._after()
    assert not waiting.made.locked()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forks_wait_for_imports_of_other_threads(tmp_path: Any) -> None:
    """What a thread is importing at a fork, the child can import as well."""
    package = tmp_path / "adjoint_slow_import"
    package.mkdir()
    (package / "__init__.py").write_text("import started\nstarted.event.set()\nstarted.wait()\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, threading, time, types\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import adjoint\n"
        "from adjoint.engine.core.state import forks\n"
        "forks._PACKAGE = 'adjoint_slow_import'\n"
        "started = types.ModuleType('started')\n"
        "started.event, started.wait = threading.Event(), lambda: time.sleep(0.2)\n"
        "sys.modules['started'] = started\n"
        "thread = threading.Thread(target=__import__, args=('adjoint_slow_import',))\n"
        "thread.start()\n"
        "started.event.wait()\n"
        "child = os.fork()\n"
        "import adjoint_slow_import\n"
        "if child == 0:\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, timeout=60, check=True)
    assert done.stdout.strip() == b"7"
