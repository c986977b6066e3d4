"""The tape: what it keeps, when it lets go, how deep it goes."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import weakref
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import Function
from adjoint.engine.backends.llvm.runtime.objects import objects
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state.context import CONTEXT
from adjoint.nn import functional as F


def leaf(*values: float) -> Any:
    return ad.tensor(list(values) or [1.0, 2.0, 3.0], dtype=ad.float64, requires_grad=True)


@pytest.fixture
def no_collector() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


DEEP = 30_000  # 270 bytes a call are more than the stack of a process


def test_thousands_of_operations_deep() -> None:
    x = leaf()
    y = x
    for _ in range(DEEP):
        y = y + x
    y.sum().backward()
    assert x.grad.tolist() == [DEEP + 1.0] * 3
    del y  # neither does freeing the chain overflow


def test_deep_graph_freed_unused() -> None:
    y = leaf()
    for _ in range(DEEP):
        y = y.sin()
    del y


PROGRAMS = {
    "elementwise": lambda x: (x * x).exp().sin(),
    "view": lambda x: (x * 1)[1:].reshape(2, 1),
    "write": lambda x: x.clone().mul_(x).exp_(),
    "write through view": lambda x: _written(x),
    "reduction": lambda x: x.softmax(0) * x.max(),
}


def _written(x: Any) -> Any:
    y = x.clone()
    y[0].mul_(x[1])
    return y


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backward", [True, False])
def test_freed_by_reference_counting(no_collector: Any, name: str, backward: bool) -> None:
    x = leaf()
    y = PROGRAMS[name](x)
    node, result = weakref.ref(y.grad_fn), weakref.ref(y)
    if backward:
        y.sum().backward()
    del y
    assert node() is None
    assert result() is None


def test_retained_gradient_makes_no_cycle(no_collector: Any) -> None:
    y = leaf() * 2
    y.retain_grad()
    y.sum().backward()
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_double_backward_is_freed(no_collector: Any) -> None:
    x = leaf()
    (g,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
    node = weakref.ref(g.grad_fn)
    (g * g).sum().backward()
    del g
    assert node() is None


def kept_bytes(build: Any) -> int:
    """What a program's result keeps alive, in bytes of array memory."""
    build()  # what is loaded and compiled once is not the result's
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    result = build()
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    del result
    # Without what a program that takes over just then is made of.
    arrays = [tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)]
    grown = after.filter_traces(arrays).compare_to(before.filter_traces(arrays), "filename")
    return sum(s.size_diff for s in grown if s.size_diff > 0)


def test_a_chain_keeps_only_what_its_rules_need() -> None:
    n, length = 100_000, 10
    x = ad.ones(n, dtype=ad.float64, requires_grad=True)

    def sines() -> Any:
        y = x
        for _ in range(length):
            y = y.sin().reshape(n // 10, 10).reshape(n)
        return y

    # sin keeps its operand: x, which exists already, and nine results; plus the result itself.
    assert length * n * 8 <= kept_bytes(sines) < (length + 0.5) * n * 8

    def sums() -> Any:
        y = x
        for _ in range(length):
            y = (y + 1).reshape(n // 10, 10).reshape(n)
        return y

    assert kept_bytes(sums) < 1.5 * n * 8  # addition keeps nothing: one result is alive


def test_only_tracked_operands_decide_what_is_saved() -> None:
    x = leaf()
    big = ad.ones(3, dtype=ad.float64)
    held = weakref.ref(big)
    y = x + big
    z = big * 2
    del big, z
    assert held() is None
    constant = ad.ones(3, dtype=ad.float64)
    product = x * constant
    other = weakref.ref(constant)
    del constant
    assert other() is not None  # x's gradient needs it
    product.sum().backward()
    assert other() is None
    assert y.requires_grad


def test_structural_zeros_are_not_materialised() -> None:
    seen: list[Any] = []

    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a, b))
            return b

    x = leaf()
    Pair.apply(x)[1].sum().backward()
    assert seen[0][0] is None
    y = leaf()
    (x * y.detach()).sum().backward()
    assert y.grad is None


def test_backward_records_nothing() -> None:
    x = leaf()
    y = (x * x).sum()
    y.backward()
    assert not x.grad.requires_grad
    with ad.no_grad():
        z = leaf()
        assert z.requires_grad
        assert not (z * 2).requires_grad


def test_grad_modes_belong_to_their_thread() -> None:
    seen: list[bool] = []
    with ad.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ad.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not ad.is_grad_enabled()
    assert seen == [True]


def test_backward_in_threads() -> None:
    w = leaf()
    grads: dict[int, Any] = {}

    def work(k: int) -> None:
        x = leaf(*[float(k)] * 3)
        for _ in range(50):
            (g,) = ad.autograd.grad((x * x * w.detach()).sum(), x)
        grads[k] = g

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k, g in grads.items():
        np.testing.assert_allclose(g.numpy(), 2.0 * k * np.array([1.0, 2.0, 3.0]))


def test_stale_error_names_the_operation() -> None:
    x = leaf()
    y = x.exp()
    y.add_(1)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation.*ExpBackward0.*version 0"
    ):
        y.sum().backward()


def test_second_backward_names_the_operation() -> None:
    y = (leaf() ** 2).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time \(PowBackward0\).*retain_graph=True"):
        y.backward()


def test_writes_pytorch_refuses_are_differentiated_right() -> None:
    x = leaf(0.5, 1.0, 1.5)
    y = x * 1
    y.mul_(y)
    y.exp_().sin_()
    y.sum().backward()
    v = np.array([0.5, 1.0, 1.5])
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.exp(v * v)) * np.exp(v * v) * 2 * v)


def test_replaced_data_makes_saved_values_stale() -> None:
    x = leaf()
    y = x * x
    x.data = ad.zeros(3, dtype=ad.float64)
    with pytest.raises(RuntimeError, match="modified"):
        y.sum().backward()


def test_reading_the_gradient_of_a_non_leaf_warns() -> None:
    y = leaf() * 2
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None


def test_anomaly_names_the_forward_line() -> None:
    with pytest.warns(UserWarning, match="Anomaly"):
        mode = ad.autograd.detect_anomaly()
    with mode:
        x = leaf(0.0)
        y = (x / x) * x  # the line to be named
        with pytest.raises(RuntimeError, match=r"returned nan values(.|\n)*test_autograd_tape"):
            y.sum().backward()
    with ad.autograd.set_detect_anomaly(True, check_nan=False):
        assert ad.is_anomaly_enabled()
        z = leaf(0.0)
        (z / z).sum().backward()
    assert not ad.is_anomaly_enabled()
    with ad.autograd.set_detect_anomaly(True):
        a = leaf()
        b = a.exp()
        b.add_(1)
        with pytest.raises(RuntimeError) as caught:
            b.sum().backward()
        assert "b = a.exp()" in "".join(caught.value.__notes__)


def test_leaf_gradients_arrive_in_order_of_last_use() -> None:
    a, b, c = leaf(), leaf(), leaf()
    seen: list[str] = []
    for name, x in zip("abc", (a, b, c), strict=True):
        x.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    ((a * b) * c + b).sum().backward()
    assert set(seen) == {"a", "b", "c"}
    assert seen.index("c") < seen.index("a")


def test_grad_takes_only_inputs_where_pytorch_does() -> None:
    x = ad.tensor(3.0, requires_grad=True)
    assert ad.autograd.grad(x * x, x, None, True, False, True, False)[0] == 6
    with pytest.warns(FutureWarning, match="only_inputs"):
        ad.autograd.grad(x * x, x, only_inputs=False)


@pytest.mark.parametrize("keep", ["retain_grad", "inputs"])
def test_a_kept_gradient_has_memory_of_its_own(keep: str) -> None:
    """The cotangent is also that of others: here the seed, and the gradient of what came before."""
    x = leaf()
    a = x + 0
    b = a + 0
    seed = ad.ones(3, dtype=ad.float64)
    if keep == "retain_grad":
        a.retain_grad()
        b.retain_grad()
        b.backward(seed)
    else:
        b.backward(seed, inputs=[x, a, b])
    b.grad.mul_(5)
    assert seed.tolist() == a.grad.tolist() == x.grad.tolist() == [1.0] * 3
    spread = x * 2
    spread.retain_grad()
    spread.sum().backward()
    assert spread.grad.stride() == (1,)
    spread.grad.mul_(2)


WRITES = {
    "itself": lambda leaf: leaf.add_(1),
    "a part": lambda leaf: leaf[:1].add_(1),
    "a view": lambda leaf: leaf.view(3).mul_(2),
    "a view of a part": lambda leaf: leaf[1:][:1].fill_(5),
    "an element": lambda leaf: leaf.__setitem__(0, 5.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_leaf_that_is_a_view_is_not_written_on_the_tape(write: Any) -> None:
    """It would lose its gradient without a word; the memory around it wants none."""
    base = ad.arange(4.0)
    part = base[1:].requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        write(part)
    assert base.tolist() == [0, 1, 2, 3]
    with ad.no_grad():
        write(part)
    base[:2].add_(1)  # of others' memory nothing is asked
    part.sum().backward()
    assert part.is_leaf
    assert part.grad.tolist() == [1, 1, 1]


CHOSEN: dict[str, tuple[Any, float]] = {
    "plainly": (lambda a: [a], 2.0),
    "twice": (lambda a: [a, a], 2.0),
    "retained before": (lambda a: (a.retain_grad(), [a])[1], 2.0),
    "with a hook": (lambda a: (a.register_hook(lambda g: g * 3), [a])[1], 6.0),
    "with both": (lambda a: (a.register_hook(lambda g: g * 3), a.retain_grad(), [a])[2], 6.0),
}


@pytest.mark.parametrize(("choose", "want"), CHOSEN.values(), ids=CHOSEN)
def test_inner_tensors_chosen_for_backward_are_counted_once(choose: Any, want: float) -> None:
    x = leaf()
    a = x + 0
    (a * 2).sum().backward(inputs=choose(a))
    assert a.grad.tolist() == [want] * 3
    assert a.retains_grad
    assert x.grad is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("met", "layers"), [(20, True), (3, False)])  # on the way: recorded
def test_an_interrupt_leaves_the_context_as_it_was(
    no_collector: Any, met: int, layers: bool
) -> None:
    """Wherever it comes: signals are looked at where Python functions are entered."""
    before = CONTEXT.every_field()

    def step() -> None:
        x = ad.randn(2, 3, requires_grad=True)
        ad.autograd.grad(ad.nn.functional.softmax(x, -1).sum(), x)
        if layers:
            (ad.nn.functional.layer_norm(x, (3,)) * x).sum().backward()
            ad.autograd.grad(x.var(), x)

    for _ in range(met):
        step()
    for number in range(10_000):
        left = number

        def interrupt(frame: Any, event: str, given: Any) -> None:
            nonlocal left
            if event == "call":
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            step()
            if left >= 0:  # it was not lost in a destructor either
                break
        except KeyboardInterrupt:
            assert CONTEXT.every_field() == before
        finally:
            sys.setprofile(None)
    assert number > 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_numpys_warnings_as_they_were(no_collector: Any) -> None:
    """Wherever it comes: signals are looked at where calls of C functions have returned."""
    before = np.geterr()

    def step() -> None:
        x = ad.ones(2, 3, requires_grad=True)
        ((x * 2).exp() / x.softmax(-1)).sum().backward()

    for _ in range(20):
        step()
    for number in range(10_000):
        left = number

        def interrupt(frame: Any, event: str, given: Any) -> None:
            nonlocal left
            if event == "c_return":
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            step()
            if left >= 0:
                break
        except KeyboardInterrupt:
            sys.setprofile(None)
            assert np.geterr() == before
        finally:
            sys.setprofile(None)
    assert number > 20


def test_gradients_by_the_keys_of_a_dict() -> None:
    layer = ad.nn.Linear(2, 1)
    x = ad.tensor([[1.0, 2.0]])
    named = dict(layer.named_parameters())
    found = ad.autograd.grad(layer(x).sum(), named)
    assert {key: value.tolist() for key, value in found.items()} == {
        "weight": [[1.0, 2.0]],
        "bias": [1.0],
    }
    unused = {**named, "other": ad.ones(2, requires_grad=True)}
    assert ad.autograd.grad(layer(x).sum(), unused, allow_unused=True)["other"] is None
    filled = ad.autograd.grad(layer(x).sum(), unused, materialize_grads=True)
    assert filled["other"].tolist() == [0.0, 0.0]
    ad.autograd.backward(layer(x).sum(), inputs={"bias": layer.bias})
    assert layer.bias.grad.tolist() == [1.0]
    assert layer.weight.grad is None
    with pytest.raises(TypeError, match="must be a dict, not mappingproxy"):
        ad.autograd.grad(layer(x).sum(), MappingProxyType(named))

    @ad.compile
    def step(weights: Any, x: Any) -> Any:
        loss = ad.func.functional_call(layer, weights, (x,)).square().sum()
        return ad.autograd.grad(loss, weights)

    found, wanted = step(named, x), ad.autograd.grad(layer(x).square().sum(), named)
    assert all(ad.allclose(found[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_a_dtype_of_their_own(compiled: bool) -> None:
    x = ad.tensor([1.0, 3.0], requires_grad=True)
    x.grad_dtype = ad.float64
    seen: list[ad.dtype] = []
    x.register_hook(lambda g: seen.append(g.dtype))
    square = ad.compile(lambda x: (x * x).sum()) if compiled else lambda x: (x * x).sum()
    for k in (1, 2):
        square(x).backward()
        assert x.grad is not None
        assert (x.grad.dtype, x.grad.tolist()) == (ad.float64, [2.0 * k, 6.0 * k])
    assert seen == [ad.float64] * 2  # hooks are given what is kept
    with pytest.raises(RuntimeError, match="already a gradient of float64"):
        x.grad_dtype = ad.float16
    with pytest.raises(
        RuntimeError, match=r"does not match the tensor's .* \(grad_dtype float64\)"
    ):
        x.grad = ad.ones(2)
    x.grad = None
    with pytest.raises(RuntimeError, match="floating-point or complex"):
        x.grad_dtype = ad.int32
    x.grad_dtype = None
    square(x).backward()
    assert (x.grad_dtype, x.grad.dtype) == (None, ad.float32)


def test_what_has_no_derivative_refuses_backward() -> None:
    """A gradient is not left out silently."""
    x = leaf(3.0, 1.0, 1.0)
    for result in (
        ad.unique(x),
        ad.unique(x, return_counts=True)[0],
        ad.unique_consecutive(x),
        ad.geqrf(x.reshape(3, 1)).a,
        ad.histogram(ad.ones(3, dtype=ad.float64), 2, weight=x).hist,
        ad.linalg.ldl_solve(*ad.linalg.ldl_factor(ad.eye(3).double()), x.reshape(3, 1)),
    ):
        assert result.requires_grad
        with pytest.raises(NotImplementedError, match="derivative is not implemented"):
            (result.sum() + x.sum()).backward()


def test_gradients_by_weights_of_counts_and_values_at_a_step() -> None:
    weights, values = leaf(1.0, 2.0, 3.0), leaf(5.0, 6.0, 7.0)
    counts = ad.bincount(ad.tensor([2, 0, 2]), weights)
    (found,) = ad.autograd.grad(counts, weights, ad.tensor([1.0, 10.0, 100.0]).double())
    assert found.tolist() == [100.0, 1.0, 100.0]
    x = leaf(-1.0, 0.0, 2.0)
    by_x, by_values = ad.autograd.grad(ad.heaviside(x, values).sum(), (x, values))
    assert (by_x.tolist(), by_values.tolist()) == ([0.0, 0.0, 0.0], [0.0, 1.0, 0.0])


def _in_inference_mode(x: ad.Tensor, w: ad.Tensor) -> list[ad.Tensor]:
    """Results of calls of many kinds: new, views, arguments, written to, of lists, made alone."""
    cell, index = ad.zeros(3, 4), ad.tensor([1, 0])
    cell[1] = x[0]
    cell[:, :2] = 2.0
    cell[cell > 1] += 1
    cell.mul_(x).add_(1, alpha=0.5)
    kept = x.clone()
    kept.copy_(cell)
    kept -= 1
    return [
        cell, kept, x * 2, 2 / x, x * w, -x, x @ w.T, x.view(12), x.T, w.T, x.T.reshape(12), x[0],
        x[:, None], x[index], x[x > 0], x[..., 1:], x.float(), x.double(), x.contiguous(),
        x.expand(2, 3, 4), x.detach(), w.detach(), x.exp(), x.sum(), x.mean(-1, keepdim=True),
        *x.max(0), *x.split(2, 1), *x.sort(), ad.cat([x, w]), ad.stack((x, x)), ad.where(x > 0, x, w),
        ad.ones(2), ad.arange(3), ad.tensor([1.0]), ad.from_numpy(np.ones(2)), ad.asarray(np.ones(2)),
        ad.as_tensor(np.ones(2)), ad.frombuffer(bytearray(4), dtype=ad.int8), ad.from_dlpack(np.ones(2)),
        F.linear(x, w), F.softmax(x, -1), F.layer_norm(x, (4,), w[0], bias=w[1]), F.dropout(x, 0.5, False),
        F.pad(x, (1, 0)), F.relu(x), ad.einsum("ij,kj->ik", x, w), x.to_sparse().to_dense(),
        ad.linalg.svd(x).S, ad.mul(x, 2, out=ad.empty(3, 4)),
    ]  # fmt: skip


def test_short_ways_in_inference_mode() -> None:
    """Values and marks are those of the general way, whichever programs calls have by then."""

    def look(y: ad.Tensor) -> Any:
        return y.dtype, y.stride(), y.is_inference(), y.requires_grad

    x = ad.linspace(-2.0, 3.0, 12).view(3, 4)
    w = ad.linspace(0.5, 1.5, 12).view(3, 4).requires_grad_()
    with ad.inference_mode(), CONTEXT.having(reference=True):
        want = _in_inference_mode(x, w)
    for _ in range(6):  # native programs are made of calls seen before
        with ad.inference_mode():
            got = _in_inference_mode(x, w)
        assert [look(y) for y in got] == [look(y) for y in want]
        for y, z in zip(got, want, strict=True):
            np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-5, atol=1e-6)
        assert not any(y.is_inference() for y in _in_inference_mode(x, w.detach()))
    assert CONTEXT.plain


def test_autocast_in_inference_mode() -> None:
    """Precisions are those under `no_grad`, and the policy is there again after each call."""

    def results() -> list[ad.Tensor]:
        x = ad.linspace(-2.0, 3.0, 12).view(3, 4)
        y = x @ x.T
        return [
            y, F.linear(x, x), F.softmax(y, -1), F.relu(y), y.view(9), y[0], x[:, :3] + y,
            ad.cat([x[:, :3], y]), ad.einsum("ij,kj->ik", x, x), F.layer_norm(y, (3,)), y.sum(),
            F.scaled_dot_product_attention(x[None], x[None], x[None]), ad.stack([x] * 9),
        ]  # fmt: skip

    with ad.autocast("cpu", dtype=ad.bfloat16):
        with ad.no_grad():
            want = results()
        for _ in range(3):
            with ad.inference_mode():
                got = results()
            assert [y.dtype for y in got] == [y.dtype for y in want]
            assert all(y.is_inference() for y in got)
            for y, z in zip(got, want, strict=True):
                assert ad.equal(y.float(), z.float())
    assert CONTEXT.plain


def test_what_lies_in_memory_from_outside_is_marked() -> None:
    memory = np.ones(2)
    makers = (ad.from_numpy, ad.as_tensor, ad.asarray, ad.from_dlpack, ad.tensor)
    with ad.inference_mode():
        made = [*(make(memory) for make in makers), ad.frombuffer(memory, dtype=ad.float64)]
        assert all(x.is_inference() for x in made)
    assert not any(make(memory).is_inference() for make in makers)


def test_gradients_on_in_inference_mode() -> None:
    """Nothing is recorded there, though the mode says that it would be."""
    w = ad.ones(3, 4, requires_grad=True)
    with ad.inference_mode(), ad.enable_grad():
        results = [w * 2, w.exp(), w[0], w.T, w @ w.T, F.softmax(w, 0)]
        assert not any(y.requires_grad for y in results)
    assert [y.is_inference() for y in results] == [True, True, False, False, True, True]


def test_errors_leave_inference_mode_as_it_was() -> None:
    x = ad.ones(3)
    with ad.inference_mode():
        with pytest.raises(RuntimeError):
            x @ ad.ones(4)
        assert ad.is_inference_mode_enabled()
        assert (x + 1).is_inference()
    assert CONTEXT.plain
    assert not (x + 1).is_inference()


def test_what_is_made_in_inference_mode_stays_marked() -> None:
    """What has memory of its own there, be it seen another way or given more of it."""
    x = ad.ones(3, 4)
    with ad.inference_mode():
        made = x * 2
        grown = [ad.add(x, x, out=ad.empty(0)), ad.empty(2).resize_(5, 7)]
        within = made.data
    for y in (*grown, within, made.data, made.detach(), made.T):
        assert y.is_inference()
        for change in ("t_", "zero_"):
            with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
                getattr(y, change)()
    assert not x.data.is_inference()


@pytest.mark.parametrize("outer", [ad.no_grad, ad.inference_mode, ad.enable_grad])
def test_inference_mode_off_is_ordinary_mode(outer: Any) -> None:
    with outer():
        before = ad.is_grad_enabled(), ad.is_inference_mode_enabled()
        with ad.inference_mode(False):
            assert ad.is_grad_enabled()
            assert not ad.is_inference_mode_enabled()
        assert (ad.is_grad_enabled(), ad.is_inference_mode_enabled()) == before


@pytest.mark.parametrize("mode", [ad.no_grad, ad.inference_mode])
def test_results_seen_another_way_stay_on_the_tape(mode: Any) -> None:
    leaf = ad.ones(2, 3, requires_grad=True)
    x = leaf * 2
    with mode():
        x.t_()
        x.unsqueeze_(0)
    (x * ad.arange(6.0).view(1, 3, 2)).sum().backward()
    assert leaf.grad.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]


def test_gradients_of_images_have_memory_of_their_own() -> None:
    """Those that lie as their leaf does are not copied, but one that several leaves share is."""
    images = [ad.randn(2, 3, 4, 5).contiguous(memory_format=ad.channels_last) for _ in range(3)]
    x, y, g = images
    x.requires_grad_()
    y.requires_grad_()
    (x + y).backward(g)
    assert x.grad is not None
    assert y.grad is not None
    assert x.grad.stride() == y.grad.stride() == x.stride()
    x.grad.zero_()
    assert ad.equal(y.grad, g)
    assert g.data_ptr() not in (x.grad.data_ptr(), y.grad.data_ptr())
    (x * 2).backward(g)
    assert ad.equal(x.grad, 2 * g)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_handed_out_can_be_written_to(compiled: bool) -> None:
    x = ad.arange(6.0).reshape(2, 3).requires_grad_()

    def scaled(x: Any) -> Any:
        outs = (x.mean(), x.sum(), x.mean(0).square().sum(), x.mT.mean(1, True).sum())
        return [ad.autograd.grad(out, x)[0].mul_(2) for out in outs]

    found = (ad.compile(scaled) if compiled else scaled)(x)
    rows = x.detach().mean(0) * 2
    wanted = [ad.full((2, 3), 1 / 3), ad.full((2, 3), 2.0), rows.expand(2, 3), ad.ones(2, 3)]
    for grad, expected in zip(found, wanted, strict=True):
        ad.testing.assert_close(grad, expected)


def test_storages_of_arrays_alone_are_hidden_from_the_collector() -> None:
    """One that is lifted may be part of a cycle, and is seen again."""
    code = objects()
    if code is None:
        pytest.skip("objects lie otherwise here")

    def made() -> Any:
        return code.wrap_places([np.ones(3)], (0,))[0]

    assert not gc.is_tracked(made()._storage)
    ends: list[Any] = []

    def written(x: Any) -> Any:
        y = made()
        y._storage.birth = CONTEXT.levels[-1].depth  # as of what a transform makes
        y.add_(x)
        assert gc.is_tracked(y._storage)
        y.__dict__["own"] = y
        ends.append(weakref.ref(y._storage))
        return x * 1

    ad.func.jvp(written, (leaf().detach(),), (leaf().detach(),))
    gc.collect()
    assert [end() for end in ends] == [None]


def test_nodes_share_what_is_alike() -> None:
    x, few = leaf(), leaf(2.0)
    for _ in range(20):
        nodes = [(x * few)._node, (x.exp() * few)._node]
    if HOOKS.note is not None:  # Python makes one each time
        assert nodes[0].versions is nodes[1].versions
    assert nodes[0].specs is nodes[1].specs
    with ad.no_grad():
        few.add_(1)
    other = (x * few)._node
    assert sorted(other.versions) == [0, 1]
    assert tuple(nodes[0].versions) == (0, 0)
    assert (x + x)._node.saved == (x + x)._node.versions == ()


@pytest.mark.parametrize("how", ["requires_grad_", "requires_grad", "detach_"])
@pytest.mark.parametrize("watched", [False, True])
def test_a_leaf_frozen_after_its_use_gets_no_gradient(how: str, watched: bool) -> None:
    frozen, other = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    seen: list[Any] = []
    if watched:
        frozen.register_post_accumulate_grad_hook(lambda t: seen.append("post"))
        frozen.register_hook(lambda g: seen.append("hook"))
    y = (frozen * other * 3).sum()
    if how == "detach_":
        frozen.detach_()
    else:
        frozen.requires_grad = False
    y.backward(retain_graph=True)
    assert frozen.grad is None
    assert other.grad is not None
    assert other.grad.tolist() == [3.0, 3.0]
    assert seen == ["hook", "post"] * watched  # as in PyTorch
    frozen.requires_grad_()
    y.backward()
    assert frozen.grad is not None
    assert frozen.grad.tolist() == [3.0, 3.0]


COPIES: dict[str, Any] = {
    "copy_": lambda to, given: to.copy_(given),
    "copy_ of other numbers": lambda to, given: to.copy_(given.double()),
    "all": lambda to, given: to.__setitem__(slice(None), given),
    "dots": lambda to, given: to.__setitem__(..., given),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("size", [1, 5, 3000])
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_copied_into_has_gradients_and_hooks_of_its_own(
    name: str, size: int, compiled: bool
) -> None:
    def run(x: Any) -> Any:
        given, to = x * 2, x * 0
        COPIES[name](to, given)
        to.register_hook(lambda g: g * 10)
        return ad.autograd.grad((to * 5 + given * 7).sum(), [to, given, x])

    run = ad.compile(run) if compiled else run
    of_copy, of_given, of_x = run(ad.ones(size, requires_grad=True))
    assert float(of_copy[0]) == 5
    assert float(of_given[0]) == 57
    assert float(of_x[0]) == 114


def test_a_hook_of_several_is_called_once_in_each_backward() -> None:
    x, y = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    every: list[Any] = []
    first: list[Any] = []
    graph = ad.autograd.graph
    handles = (
        graph.register_multi_grad_hook(
            (x, y), lambda grads: every.append([g if g is None else g[0].item() for g in grads])
        ),
        graph.register_multi_grad_hook((x, y), lambda g: first.append(g[0].item()), mode="any"),
    )
    (2 * x).sum().backward()
    (3 * y).sum().backward()  # what an earlier one came to is no part of this one
    (4 * x * y).sum().backward()
    assert every == [[2.0, None], [None, 3.0], [4.0, 4.0]]
    assert first == [2.0, 3.0, 4.0]
    for handle in handles:
        handle.remove()
    (x * y).sum().backward()
    assert len(every) == len(first) == 3


def test_a_hook_of_several_that_would_stay_is_refused_in_a_compiled_function() -> None:
    def f(x: Any) -> Any:
        ad.autograd.graph.register_multi_grad_hook((x,), print)
        return x * 2

    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a hook that stays"):
        ad.compile(f)(x)
    assert x._grad_meta is not None
    assert not x._grad_meta.hooks
