"""Small composites as the kernels they come to: the same bits, the same errors, the same tape."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.autodiff.tape import tape
from adjoint.engine.backends.array import executor
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations import small_calls as names
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.core.state import stand_ins
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.graph.eager import small_calls, straight
from adjoint.engine.ops.nn.gates import GRU_GATES, LSTM_GATES
from adjoint.nn import functional as F

Call = Callable[..., Any]
TARGET = ad.tensor([1, 3])
CALLS: dict[str, Call] = {
    "softmax": lambda x, y: x.softmax(-1),
    "log_softmax": lambda x, y: x.log_softmax(0),
    "logsumexp": lambda x, y: x.logsumexp((0, 1)),
    "var": lambda x, y: x.var(),
    "std of rows": lambda x, y: x.std(-1, keepdim=True),
    "layer_norm": lambda x, y: F.layer_norm(x, (4,), y[0], y[1]),
    "rms_norm": lambda x, y: F.rms_norm(x, (4,)),
    "group_norm": lambda x, y: F.group_norm(x.reshape(1, 2, 4), 2),
    "instance_norm": lambda x, y: F.instance_norm(x.reshape(1, 2, 4)),
    "cross_entropy": lambda x, y: F.cross_entropy(x, TARGET),
    "smoothed": lambda x, y: F.cross_entropy(x, TARGET, label_smoothing=0.1, reduction="none"),
    "nll_loss": lambda x, y: F.nll_loss(x, TARGET, ignore_index=1),
    "huber_loss": lambda x, y: F.huber_loss(x, y),
    "binary": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "cosine": lambda x, y: F.cosine_similarity(x, y),
    "gelu": lambda x, y: F.gelu(x, approximate="tanh"),
    "attention": lambda x, y: F.scaled_dot_product_attention(x, y, x),
    "ctc": lambda x, y: F.ctc_loss(
        x.reshape(4, 1, 2).log_softmax(-1), ad.tensor([[1]]), ad.tensor([4]), ad.tensor([1])
    ),
    "transposed": lambda x, y: x.t().softmax(0),
    "addmm": lambda x, y: ad.addmm(y[0, :2], x, y.t()),
}
# Composites that are called as a kernel of their own.
WITH_KERNELS: dict[str, Call] = {
    "linear": lambda x, y: F.linear(x, y, y[0, :2]),
    "without a bias": lambda x, y: F.linear(x.reshape(1, 2, 4), y),
    "one row": lambda x, y: F.linear(x[0], y, y[0, :2]),
    "lstm": lambda x, y: LSTM_GATES(x, y[:, :1])[0],
    "gru": lambda x, y: GRU_GATES(x[:, :3], y[:, :3], y[:, 3:])[0],
}


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The programs of this process, none at first, and none of whole functions."""
    stand_ins.StraightLater.loaded().forget()
    monkeypatch.setattr(small_calls, "SIGHTED", 1 << 60)
    yield HOOKS.straight
    HOOKS.straight.forget()


def made(programs: Any) -> list[Any]:
    """The programs that were made."""
    return [found for found in programs.by_kind.values() if callable(found)]


def operands(dtype: Any) -> tuple[ad.Tensor, ad.Tensor]:
    rng = np.random.default_rng(3)
    x, y = (ad.tensor(rng.standard_normal((2, 4))).to(dtype) for _ in range(2))
    return x.requires_grad_(), y


def cotangent(out: ad.Tensor) -> ad.Tensor:
    """One that lies row by row."""
    return ad.linspace(-1, 2, out.numel()).reshape(out.shape)


def results(call: Call, x: ad.Tensor, y: ad.Tensor, own: bool = False) -> list[np.ndarray]:
    """What a call gives, and the gradient that follows from it, or from a cotangent of its own."""
    x.grad = None
    out = call(x, y)
    out.backward(cotangent(out)) if own else out.sum().backward()
    assert x.grad is not None
    shown = [out.detach(), x.grad]
    return [np.array(t.stride()) for t in shown] + [t.to(ad.float64).numpy().copy() for t in shown]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.bfloat16])
def test_programs_give_the_bits_of_the_operations_they_stand_for(dtype: Any, programs: Any) -> None:
    for name, call in CALLS.items():
        x, y = operands(dtype)
        with CONTEXT.having(reference=True):
            want = results(call, x, y)
        before = len(made(programs))
        for _ in range(12):
            for got, wanted in zip(results(call, x, y), want, strict=True):
                np.testing.assert_array_equal(got, wanted, err_msg=name)
        assert len(made(programs)) > before, f"{name}: no part of it became a program"
        with CONTEXT.having(reference=True):  # other elements, the same kind
            want = results(call, (x.detach() * -3).requires_grad_(), y)
        for got, wanted in zip(
            results(call, (x.detach() * -3).requires_grad_(), y), want, strict=True
        ):
            np.testing.assert_array_equal(got, wanted, err_msg=name)


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_composites_with_kernels_have_programs_on_the_tape(name: str, programs: Any) -> None:
    call = WITH_KERNELS[name]
    for scale in (1.0, -3.0):
        x, y = operands(ad.float32)
        x = (x.detach() * scale).requires_grad_()
        with CONTEXT.having(reference=True):
            want = results(call, x, y)
        for _ in range(160):  # of which one in eight is looked at
            for got, wanted in zip(results(call, x, y), want, strict=True):
                np.testing.assert_array_equal(got, wanted)
    assert made(programs)


def test_what_a_program_gives_is_its_caller_s(programs: Any) -> None:
    x = ad.tensor([1.0, 2.0])
    seen = [x.softmax(0) for _ in range(12)]
    assert len(made(programs)) == 1
    held = seen[-1].clone()
    seen[-2].zero_()
    x.fill_(3.0)
    np.testing.assert_array_equal(seen[-1].numpy(), held.numpy())
    assert x.softmax(0).tolist() == [0.5, 0.5]


def test_numbers_that_compare_equal_are_different_kinds() -> None:
    x = ad.tensor([[-1.0, 2.0]])
    for _ in range(12):
        assert F.leaky_relu(x, 0.0).tolist() == [[0.0, 2.0]]
    plus, minus = (np.signbit(F.leaky_relu(-x * 0 - 1, s).numpy()).tolist() for s in (0.0, -0.0))
    with CONTEXT.having(reference=True):
        want = [np.signbit(F.leaky_relu(-x * 0 - 1, s).numpy()).tolist() for s in (0.0, -0.0)]
    assert [plus, minus] == want


def test_a_program_s_errors_are_the_operation_s(programs: Any) -> None:
    x = ad.randn(2, 4)
    for _ in range(12):
        F.cross_entropy(x, TARGET)
    assert made(programs)
    wrong = ad.tensor([1, 9])
    with CONTEXT.having(reference=True), pytest.raises(IndexError) as want:
        F.cross_entropy(x, wrong)
    with pytest.raises(IndexError) as got:
        F.cross_entropy(x, wrong)
    assert str(got.value) == str(want.value)


def test_inside_transforms_and_recordings_nothing_changes() -> None:
    x = ad.randn(3, 4)
    for _ in range(12):
        x[0].softmax(0)
    batched = ad.func.vmap(lambda r: r.softmax(0))(x)
    np.testing.assert_allclose(batched.numpy(), x.softmax(1).numpy(), rtol=1e-6)
    second = ad.func.hessian(lambda r: r.softmax(0)[0])(x[0])
    third = ad.func.hessian(lambda r: (r.exp() / r.exp().sum())[0])(x[0])
    np.testing.assert_allclose(second.numpy(), third.numpy(), atol=1e-6)


# Single kernels, of a matrix that the tape follows and another.
KERNELS: dict[str, Call] = {
    "sum of both": lambda x, y: x + y,
    "a number": lambda x, y: 1 - x,
    "a float": lambda x, y: x * 2.5,
    "minus zero": lambda x, y: x * -0.0,
    "quotient": lambda x, y: y / x,
    "a power": lambda x, y: x**3,
    "a row": lambda x, y: x * y[0],
    "a row that is followed": lambda x, y: x[0] + y,
    "a column": lambda x, y: x - y[:, :1],
    "itself": lambda x, y: x * x,
    "a whole number of another dtype": lambda x, y: x * TARGET[:1],
    "exp": lambda x, y: x.exp(),
    "relu": lambda x, y: x.relu(),
    "abs": lambda x, y: x.abs(),
    "tanh": lambda x, y: x.tanh(),
    "maximum": lambda x, y: ad.maximum(x, y),
    "where": lambda x, y: ad.where(y > 0, x, y),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 2.0),
    "product": lambda x, y: x @ y.t(),
    "product with a vector": lambda x, y: x @ y[0],
    "turned": lambda x, y: x.t() + y.t(),
    "every second": lambda x, y: x[:, ::2] * 2,
    "tril": lambda x, y: x.tril(),
    "triu": lambda x, y: x.triu(1),
    "flip": lambda x, y: x.flip(0),
    "roll": lambda x, y: x.roll(1, 1),
    "cumsum": lambda x, y: x.cumsum(1),
    "prod": lambda x, y: x.prod(1),
    "clone": lambda x, y: x.t().clone(),
    "double": lambda x, y: x.double(),
}


@pytest.mark.parametrize(
    ("dtype", "kernels"), [(ad.float32, [*KERNELS]), (ad.bfloat16, [*KERNELS][::3])]
)
def test_single_kernels_on_the_tape_give_the_same_bits(
    dtype: Any, kernels: list[str], programs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "EVERY", 1)
    for name in ("AFTER", "OFTEN"):
        monkeypatch.setattr(straight, name, 1)
    monkeypatch.setattr(straight, "LOADED", 0)
    x, y = operands(dtype)
    special = ad.tensor([[0.0, -0.0, np.inf, -np.inf], [np.nan, 1.0, -1.0, 3e38]]).to(dtype)
    given = [(x, y), (special.requires_grad_(), y), (x, special.detach()), (y.requires_grad_(), x)]
    for name in kernels:
        call = KERNELS[name]
        for pair in given:
            with CONTEXT.having(reference=True):
                want = results(call, *pair)
            for _ in range(4):
                got = results(call, *pair)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g, w, err_msg=name)
                np.testing.assert_array_equal(np.signbit(g), np.signbit(w), err_msg=name)
    assert len(made(programs)) > len(kernels) / 2


# Operations whose rules are programs, and one that hands its cotangent on.
RULES: dict[str, Call] = {
    "a product of matrices": lambda x, y: x @ y.t(),
    "a quotient": lambda x, y: x / y,
    "a column": lambda x, y: x * y[:, :1],
    "a part": lambda x, y: x[1:, ::2],
    "chosen": lambda x, y: x[TARGET[:1]],
    "sines": lambda x, y: x.sin(),
    "bits beside it": lambda x, y: x + y,
    "a row": lambda x, y: x[0] + y,
    "rows joined": lambda x, y: ad.cat([x, y]),
    "columns joined": lambda x, y: ad.cat([x, y], 1),
    "a shift handed on": lambda x, y: F.layer_norm(x, tuple(x.shape), y, y * 2),
    "vectors": lambda x, y: x[0] @ y[0],
    "a trace": lambda x, y: x.trace(),
    "a diagonal": lambda x, y: ad.diag(x, 1),
    "on a diagonal": lambda x, y: x.diag_embed(),
    "a remainder": lambda x, y: x.remainder(y),
    "channels dealt out": lambda x, y: F.channel_shuffle(x.reshape(1, 4, -1), 2),
    "pixels of channels": lambda x, y: F.pixel_shuffle(x.reshape(4, 1, -1), 2),
    "channels of pixels": lambda x, y: F.pixel_unshuffle(x.reshape(1, 4, -1)[..., :2], 2),
}
# Those whose rules hand their cotangent on or give a view of it, and nothing else.
WITHOUT = ("bits beside it", "a row", "on a diagonal")


def test_rules_of_few_elements_are_programs(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "EVERY", 1)
    monkeypatch.setattr(straight, "LOADED", 0)
    for name, call in RULES.items():
        x, y = operands(ad.float32)
        y = y.requires_grad_()
        for times in range(40):
            x = (x.detach() * -1.01).requires_grad_()
            y.grad = None
            with CONTEXT.having(reference=True):
                want = [*results(call, x, y, True), None if y.grad is None else y.grad.clone()]
            y.grad = None
            got = [*results(call, x, y, True), y.grad]
            for g, w in zip(got, want, strict=True):
                assert (g is None) == (w is None)
                if g is not None:
                    np.testing.assert_array_equal(g, w, err_msg=f"{name}, {times}")
        written = [p for p in call(x, y).grad_fn.plan.small if p[1][0]]
        assert bool(written) == (name not in WITHOUT), name
        before = x.grad.clone()  # type: ignore[union-attr]
        out = call(x, y)
        out.backward(cotangent(out))
        np.testing.assert_array_equal(x.grad.numpy(), (before + before).numpy())  # type: ignore[union-attr]


def test_rules_that_are_programs_refuse_what_was_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "EVERY", 1)
    monkeypatch.setattr(straight, "LOADED", 0)
    x, y = operands(ad.float32)
    for _ in range(40):
        (x * y).sum().backward()
    out = x * y
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    twice = x * y
    twice.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        twice.sum().backward()


@pytest.fixture
def native_nodes() -> None:
    if HOOKS.note is None and (loops.native() is None or HOOKS.note is None):
        pytest.skip("objects are laid out otherwise here")


@pytest.mark.usefixtures("native_nodes")
def test_nodes_made_natively_are_as_those_of_python() -> None:
    """Also of views whose base was written to since, and of subclasses."""

    def seen() -> list[Any]:
        x = ad.nn.Parameter(ad.ones(3, 4))
        base = x * 2
        row = base[1]
        parts = [row, row.unsqueeze(0), base.t(), base + 1, base.sum(1)]
        base.mul_(3)
        parts += [row * 2, base.t(), row[1:], base.detach()[0], ad.max(base, 1).values]
        parts += [base.exp(), base / row, base @ base.t(), ad.cat([base, base]), 1 - base]
        with ad.no_grad():
            parts += [base[0], row.view(2, 2)]
        told = []
        for t in parts:
            node = t.grad_fn
            edges = [] if node is None else [(type(n).__name__, k) for n, k in node.next_functions]
            about = [t._is_view(), t.requires_grad, type(t), t.stride(), t.tolist(), edges]
            if isinstance(node, tape.RecordNode):
                about += [node.specs, node.versions, node.params, node.plan.saves]
            told.append((type(node), about))
        ad.stack([t.sum() for t in parts if t.requires_grad]).sum().backward()
        return [*told, x.grad.tolist()]  # type: ignore[union-attr]

    natively = (HOOKS.note, HOOKS.show, HOOKS.meet_noted, HOOKS.meet_rules)
    got = seen()
    HOOKS.note = HOOKS.show = HOOKS.meet_noted = HOOKS.meet_rules = None
    try:
        want = seen()
    finally:
        HOOKS.note, HOOKS.show, HOOKS.meet_noted, HOOKS.meet_rules = natively
    assert got == want


@pytest.mark.usefixtures("native_nodes")
def test_what_is_raised_where_a_node_is_made_is_raised() -> None:
    """An interrupt, say, may come in the Python code that native code calls."""
    x, row, base = ad.ones(3, 1, requires_grad=True), ad.ones(3), ad.ones(2, 2).requires_grad_() * 1

    class Interrupt(BaseException):
        pass

    def raise_in_specs(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is tape.specs_of.__code__:
            raise Interrupt

    calls: list[Callable[[], Any]] = [lambda: x * row, lambda: base[0], lambda: base.t()]
    for call in calls:
        for _ in range(40):  # by the eager table, and by native rows
            call()
        for _ in range(3):
            interrupted = False
            sys.setprofile(raise_in_specs)
            try:
                call()
            except Interrupt:
                interrupted = True
            finally:
                sys.setprofile(None)
            assert interrupted or call().grad_fn.specs is None


@pytest.mark.usefixtures("native_nodes")
def test_views_hold_what_they_are_made_of_while_python_runs() -> None:
    """The collector may run where anything is made, and have a tensor's base let go of."""
    before = gc.get_threshold()
    for threshold in range(1, 13):  # for it to run at each of the places
        view = (ad.ones(4, requires_grad=True) * 2)[1:]

        def let_go(*_: Any, view: ad.Tensor = view) -> None:
            view._base, view._chain, view._node = None, (), None

        gc.collect()
        gc.callbacks.append(let_go)
        gc.set_threshold(threshold)
        try:
            shown = view[1:]
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(let_go)
        assert shown._base is not None
        root = shown._base[0]
        assert type(root) is ad.Tensor
        assert root._storage is shown._storage
        assert shown.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x.sin(),
        lambda x, y: x * y,
        lambda x, y: (x * x + 1) ** y,
        lambda x, y: x.softmax(-1),
        lambda x, y: F.layer_norm(x, (4,)),
        lambda x, y: x @ y.t(),
    ],
)
def test_hooks_unpack_each_saved_tensor_once(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "EVERY", 1)
    for _ in range(24):
        asked: list[str] = []
        x, y = operands(ad.float32)
        wanted = results(call, x, y.requires_grad_())
        x.grad = y.grad = None

        def pack(t: ad.Tensor, asked: list[str] = asked) -> ad.Tensor:
            asked.append("pack")
            return t

        def unpack(t: ad.Tensor, asked: list[str] = asked) -> ad.Tensor:
            asked.append("unpack")
            return t

        with ad.autograd.graph.saved_tensors_hooks(pack, unpack):
            out = call(x, y)
        out.sum().backward()
        assert asked.count("pack") == asked.count("unpack") > 0
        np.testing.assert_allclose(x.grad.numpy(), wanted[-1], rtol=1e-6, atol=1e-6)  # type: ignore[union-attr]


def test_small_draws_by_a_fragment_are_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "DRAWN", 3)
    monkeypatch.setattr(executor, "_drawn", {})

    def draws() -> list[Any]:
        ad.manual_seed(5)
        many = [ad.randn(7), ad.rand(7), ad.randint(0, 9, (7,)), ad.randn(7, dtype=ad.float64)]
        return [t.tolist() for t in many]

    first = draws()
    for _ in range(4):
        assert draws() == first


def of_a_cell(weights: list[Any]) -> tuple[Any, ...]:
    x, h, c = (ad.from_numpy(w) for w in (np.eye(2, 3), np.eye(2, 4), np.ones((2, 4))))
    return ad.lstm_cell(x, (h, c), *weights)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("results", "shapes"),
    [
        (of_a_cell, [(16, 3), (16, 4), (16,), (16,)]),
        (lambda given: ad.linalg.svd(given[0])[::2], [(3, 3)]),
    ],
)
def test_which_cotangents_came_decides_the_program(
    results: Any, shapes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(straight, "AFTER", 1)
    rng = np.random.default_rng(0)
    weights = [ad.from_numpy(rng.standard_normal(s)).requires_grad_() for s in shapes]

    def gradients(which: int) -> list[Any]:
        out = results(weights)[which]  # results of one shape, of which one has a cotangent
        seed = ad.arange(out.numel()).reshape(out.shape) / 7
        pulled = ad.autograd.grad((out * out * seed).sum(), weights)
        return [g.numpy() for g in pulled]

    with CONTEXT.having(reference=True):
        wanted = [gradients(which) for which in (0, 1)]
    for which in (0, 0, 0, 1, 1, 1, 0, 1):
        for g, w in zip(gradients(which), wanted[which], strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
