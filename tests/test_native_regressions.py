"""Programs that once gave something else compiled than eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.program.native import compile_task
from adjoint.engine.capture.signature import Arguments
from adjoint.engine.compiler.options import Options
from adjoint.engine.compiler.package.naming import task_key
from adjoint.engine.core.operations.families import composite
from adjoint.engine.core.operations.record import REGISTRY, Record
from adjoint.engine.graph.execution import Executable, Task
from adjoint.engine.tensor.tensor import wrap

Arrays = list[np.ndarray[Any, Any]]


def run(make: Callable[[], tuple[Any, list[ad.Tensor], list[Any]]], compiled: bool) -> Arrays:
    """Results and state of three calls of what `make` returns: function, state, arguments."""
    fn, states, args = make()
    fn = ad.compile(fn) if compiled else fn
    found: Arrays = []
    for _ in range(3):
        result = fn(*args)
        results = result if isinstance(result, tuple) else (result,)
        found += [x.numpy().copy() for x in (*results, *states)]
    return found


def check_same(make: Callable[[], tuple[Any, list[ad.Tensor], list[Any]]]) -> None:
    for got, wanted in zip(run(make, True), run(make, False), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_state_is_read_before_a_concatenation_replaces_it() -> None:
    def make() -> tuple[Any, list[ad.Tensor], list[Any]]:
        state = ad.arange(8.0)

        def fn(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            first = ad.exp(x * 2)
            seen = state.cumsum(0)
            state.copy_(ad.cat([first, y]))
            return seen

        return fn, [state], [ad.ones(4), ad.ones(4) * 5]

    check_same(make)


def test_state_is_read_before_a_turned_product_replaces_it() -> None:
    def make() -> tuple[Any, list[ad.Tensor], list[Any]]:
        state = ad.arange(30.0).reshape(6, 5)

        def fn(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
            product = a @ b
            seen = state.cumsum(0)
            state.copy_(product.t().contiguous())
            return seen

        return fn, [state], [ad.ones(5, 4), ad.ones(4, 6)]

    check_same(make)


def test_a_number_of_another_type_is_not_read_as_a_float() -> None:
    scaled = ad.compile(lambda x, factor: x * factor)
    x = ad.ones(3, dtype=ad.int64)
    for factor in (2, 2.5, 3.5, True, 2, 1j, 4.5):
        got, wanted = scaled(x, factor), x * factor
        assert got.dtype is wanted.dtype
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_a_tensor_may_stand_where_a_number_stood() -> None:
    scaled = ad.compile(lambda x, factor: x * factor)
    x = ad.ones(3)
    for factor in (2.0, 2.0, ad.tensor([1.0, 2.0, 3.0]), 3.0, ad.tensor([1.0, 2.0, 3.0])):
        np.testing.assert_array_equal(scaled(x, factor).numpy(), (x * factor).numpy())


@pytest.mark.parametrize("as_state", [False, True])
def test_memory_that_is_read_only_is_not_written(as_state: bool) -> None:
    data = bytes(16)
    fixed = ad.frombuffer(data, dtype=ad.float32)
    fn: Any = ad.compile((lambda: fixed.add_(1)) if as_state else (lambda x: x.add_(1)))
    with pytest.raises(ValueError, match="read-only"):
        fn(*(() if as_state else (fixed,)))
    assert data == bytes(16)
    if not as_state:  # the program itself is good
        np.testing.assert_array_equal(fn(ad.zeros(4)).numpy(), np.ones(4))


def test_results_are_fresh_whatever_was_done_to_the_arrays_before() -> None:
    double = ad.compile(lambda x: x * 2)
    x = ad.arange(6.0)
    for _ in range(4):
        array = double(x).numpy()
        array = array.reshape(2, 3)
        array.flags.writeable = False
        array = double(x).numpy()
        array.flags.writeable = False
    del array
    for _ in range(4):
        result = double(x)
        assert result.shape == (6,)
        result.add_(1)
        np.testing.assert_array_equal(result.numpy(), np.arange(6) * 2 + 1)


def test_results_that_somebody_holds_in_any_way_are_not_reused() -> None:
    double = ad.compile(lambda x: x * 2)
    holders: list[Callable[[ad.Tensor], Any]] = [
        lambda t: t.numpy(),
        lambda t: memoryview(t.numpy()),
        lambda t: np.from_dlpack(t),  # type: ignore[arg-type]
        lambda t: t.numpy()[1:],
        lambda t: t[1:],
        lambda t: t.detach(),
        lambda t: ad.from_numpy(t.numpy()),
        lambda t: t.numpy().reshape(2, 3).T,
    ]
    for hold in holders:
        held = [(hold(double(ad.full((6,), float(k)))), k) for k in range(6)]
        for got, k in held:
            np.testing.assert_array_equal(np.unique(np.asarray(got)), [2.0 * k])


def test_fields_of_records_are_refused() -> None:
    records = np.zeros(5, dtype=[("a", "i1"), ("b", "f4")])
    with pytest.raises(ValueError, match="copy"):
        ad.from_numpy(records["b"])


def test_memory_that_cannot_be_had_is_accounted_for() -> None:
    outer = ad.compile(lambda x: (x[:, None] * x[None, :]).cumsum(0).cumsum(1).sum())
    with pytest.raises(MemoryError, match=r"(?s)needs [\d.]+ TB .* made by step \d+ \(cumsum"):
        outer(ad.ones(10_000_000))


def tasks_of(fn: Any, *args: Any) -> list[Task]:
    """The tasks that compiling a function makes."""
    found: list[Task] = []

    def keep(task: Task) -> Executable:
        found.append(task)
        return compile_task(task, Options())

    ad.compile(fn, backend=keep)(*args)
    return found


def test_results_held_beside_others_that_are_not() -> None:
    """Results of a call share a bank; whoever is held stays as it is, whatever becomes of others."""
    several = ad.compile(lambda x: (x * 2, x + 1, x.sum(), x[1:] - 3, x.to(ad.float64)))
    random = np.random.default_rng(0)
    held: list[tuple[Any, Any]] = []
    for k in range(60):
        results = several(ad.full((6,), float(k)))
        chosen = [results[i] for i in random.permutation(5)[: random.integers(0, 4)]]
        held += [(t if random.integers(2) else t.numpy(), t.clone().numpy()) for t in chosen]
        del results, chosen
        held = [pair for pair in held if random.integers(8)]
        for now, then in held:
            np.testing.assert_array_equal(np.asarray(now), then)


def test_compositions_of_ones_own_are_told_apart_by_content() -> None:
    def key(record: Record) -> str:
        (task,) = tasks_of(lambda x: record(x), ad.ones(3))
        return task_key(task, Options())

    made = []
    for compose in (lambda x: x * 2, lambda x: x * 3):  # as two processes may have it
        made.append(composite("twofold", compose))
        del REGISTRY["twofold"]
    first, second = made
    assert key(first) == key(first)
    assert key(first) != key(second)
    for record, wanted in ((first, 2), (second, 3)):
        got = ad.compile(lambda x, record=record: record(x))(ad.ones(3))
        np.testing.assert_array_equal(got.numpy(), [wanted] * 3)


def test_arrays_of_another_device_take_the_long_way() -> None:
    class Elsewhere(np.ndarray):  # type: ignore[type-arg]
        """Stands for the arrays of another library."""

    x = ad.ones(3)
    wanted = Arguments([x], None, frozenset(), frozenset())
    assert wanted.fit([ad.zeros(3)])
    assert not wanted.fit([wrap(np.zeros(3, np.float32).view(Elsewhere))])


def test_operands_are_read_before_a_result_takes_their_place() -> None:
    def make() -> tuple[Any, list[ad.Tensor], list[Any]]:
        ad.manual_seed(0)
        turned, state = ad.randn(6, 4), ad.randn(4, 6)

        def fn(x: ad.Tensor) -> ad.Tensor:
            grown = x * 0.7
            gate = (turned.t().contiguous() + (state + 1).flip(0)).sigmoid()
            turned.copy_(gate.t())
            state.copy_((grown.t() @ x @ grown.t()).t().contiguous().tanh())
            state.add_(gate * 0.1)
            return (grown - grown.mean(1, keepdim=True)).tanh()

        return fn, [turned, state], [ad.randn(4, 6)]

    check_same(make)


def test_state_is_read_before_the_same_kernel_replaces_it() -> None:
    def make() -> tuple[Any, list[ad.Tensor], list[Any]]:
        first, second = ad.arange(40.0), ad.zeros(40)

        def fn(x: ad.Tensor) -> ad.Tensor:
            new, other = x * 2, first + x
            first.copy_(new)
            second.copy_(other)
            return new + 1

        return fn, [first, second], [ad.arange(40.0).sin()]

    check_same(make)


@pytest.mark.parametrize("show", [lambda s: s, lambda s: s[:]], ids=["itself", "a view"])
def test_state_that_an_argument_shows_is_returned_turned(show: Any) -> None:
    def make() -> tuple[Any, list[ad.Tensor], list[Any]]:
        state = ad.arange(6.0).reshape(2, 3)  # a view itself: what is written is its base

        def fn(x: ad.Tensor, n: float) -> ad.Tensor:
            state.mul_(n)
            return x.t().contiguous()

        return fn, [state], [show(state), 2.0]

    check_same(make)


def test_each_copy_of_a_turned_product_is_written() -> None:
    class Attention(ad.nn.Module):
        """Its keys' gradient is a turned product that two others read, each its own copy."""

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (ad.nn.Linear(32, 32) for _ in range(4))
            self.norm = ad.nn.LayerNorm(32)

        def forward(self, x: ad.Tensor) -> ad.Tensor:
            query, key, value = (
                layer(x).view(2, 16, -1, 8).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
            mixed = ad.nn.functional.scaled_dot_product_attention(query, key, value)
            return self.norm(self.out(mixed.transpose(1, 2).reshape(2, 16, -1)) + x)  # type: ignore[no-any-return]

    ad.manual_seed(0)
    module, weights = Attention(), ad.randn(2, 16, 32)
    x = ad.randn(2, 16, 32, requires_grad=True)
    found: list[Arrays] = []
    for forward in (module, ad.compile(module)):
        given = [x, *module.parameters()]
        found.append([g.numpy() for g in ad.autograd.grad((forward(x) * weights).sum(), given)])
    for got, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
