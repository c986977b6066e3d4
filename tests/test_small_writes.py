"""In-place operations on few elements as programs: the same bits, memory, tape and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations import public
from adjoint.engine.core.operations.small_calls import UNFOLLOWED, SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stand_ins import StraightLater
from adjoint.engine.graph.eager import enlisted, small_calls
from adjoint.nn import functional as F

Write = Callable[[ad.Tensor, ad.Tensor], Any]
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-38, 3e38, -1.0)
UNARY = (
    "abs acos ceil cos erf exp expm1 floor frac log log1p neg reciprocal relu round rsqrt sigmoid "
    "sign sin sqrt square tan tanh tril triu trunc zero nan_to_num"
)


def unary(name: str) -> Write:
    return lambda x, y: getattr(x, f"{name}_")()


def add_up(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    x += y
    x *= 0.5
    x -= 1
    x /= y
    return x


def places(x: ad.Tensor) -> ad.Tensor:
    return ad.arange(x.numel()).reshape(x.shape) % x.shape[1]


ROWS, COLUMNS = ad.tensor([0, 1]), ad.tensor([1, -1])


def put(key: Any, value: Callable[[ad.Tensor, ad.Tensor], Any]) -> Write:
    """Of `x[key] = value`; keys may be made of both matrices."""

    def write(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        x[key(x, y) if callable(key) else key] = value(x, y)
        return x

    return write


def put_truths(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
    """Truths and numbers written to truths."""
    truths = x > 0
    truths[0, 1], truths[1], truths[:, 2], truths[ROWS] = True, False, 2, truths[:2] & True
    return x.copy_(truths)


KEYS: dict[str, Any] = {
    "two indices": (ROWS, COLUMNS),
    "an index": ROWS,
    "a list": [1, 0],
    "lists": ([0, 1], [-1, 1]),
    "columns": (slice(None), [0, 2]),
    "an index and a number": (1, ROWS),
    "an index out of range": (ROWS, COLUMNS + 7),
    "a mask": lambda x, y: y > 0,
    "a mask of rows": lambda x, y: y[:, 0] > 0,
    "truths": [True, False],
    "an index at the end": (..., COLUMNS),
    "an index of slices": (ROWS, slice(1, None)),
    "an index and a new dimension": (ROWS, None),
    "a mask in a row": lambda x, y: (1, y[0] > 0),
    "a mask of columns": lambda x, y: (slice(None), y[0] > 0),
    "a number in a tensor": ad.tensor(1),
    "numbers in tensors": (ad.tensor(-1), ad.tensor(0)),
}
VALUES: dict[str, Callable[[ad.Tensor, ad.Tensor], Any]] = {
    "a number": lambda x, y: 2.5,
    "its like": lambda x, y: y[ROWS, COLUMNS],
    "rows": lambda x, y: y[:2],
    "columns": lambda x, y: y[:, 1:3],
    "what a mask chooses": lambda x, y: y[y > 0],
    "its own elements": lambda x, y: x[0, :2],
    "others of its own": lambda x, y: x[y > 0],
    "another dtype": lambda x, y: y[ROWS, COLUMNS].double(),
    "an element": lambda x, y: y[1, 1],
}
# Of a matrix that is written to, and another of its shape.
WRITES: dict[str, Write] = {
    **{name: unary(name) for name in UNARY.split()},
    "add": lambda x, y: x.add_(y),
    "add of itself": lambda x, y: x.add_(x),
    "add of a neighbour": lambda x, y: x[:, 1:].add_(x[:, :-1]),
    "add of a column": lambda x, y: x.add_(y[:, :1]),
    "add to a column": lambda x, y: x[:, 1].add_(y[:, 0]),
    "add with a factor": lambda x, y: x.add_(y, alpha=2),
    "add of a shape that is larger": lambda x, y: x[:1].add_(y),
    "add of a number": lambda x, y: x.add_(1.5),
    "operators": add_up,
    "mul": lambda x, y: x.mul_(y),
    "div": lambda x, y: x.div_(y),
    "pow": lambda x, y: x.pow_(2),
    "remainder": lambda x, y: x.remainder_(2),
    "clamp": lambda x, y: x.clamp_(-0.5, 0.5),
    "clamp below": lambda x, y: x.clamp_(min=0),
    "lerp": lambda x, y: x.lerp_(y, 0.25),
    "addcmul": lambda x, y: x.addcmul_(y, y, value=0.5),
    "addcdiv": lambda x, y: x.addcdiv_(y, y),
    "masked_fill": lambda x, y: x.masked_fill_(y > 0, 2.0),
    "cumsum": lambda x, y: x.cumsum_(1),
    "compared": lambda x, y: x.eq_(y),
    "scatter": lambda x, y: x.scatter_(1, places(x), y),
    "scatter of a number": lambda x, y: x.scatter_(1, places(x), 2.5),
    "scatter of a number to one place": lambda x, y: x.scatter_(1, places(x) * 0, -1),
    "scatter of a number out of range": lambda x, y: x.scatter_(1, places(x) + 2, 2),
    "scatter of a number, turned": lambda x, y: x.T.scatter_(0, places(x).T, 2),
    "scatter_add": lambda x, y: x.scatter_add_(1, places(x), y),
    "index_fill": lambda x, y: x.index_fill_(1, COLUMNS, 2.5),
    "index_fill at one place": lambda x, y: x.index_fill_(0, ROWS * 0 - 1, 3),
    "index_fill out of range": lambda x, y: x.index_fill_(0, ROWS + 7, 3),
    "index_add": lambda x, y: x.index_add_(0, ad.arange(x.shape[0]), y),
    "copy": lambda x, y: x.copy_(y),
    "copy of a row": lambda x, y: x.copy_(y[0]),
    "copy of what is turned": lambda x, y: x[:2, :2].copy_(y[:2, :2].T),
    "copy of whole numbers": lambda x, y: x.copy_((y > 0).long()),
    "copy to the next": lambda x, y: x[:, 1:].copy_(x[:, :-1]),
    "fill": lambda x, y: x.fill_(2.5),
    "fill with a tensor": lambda x, y: x.fill_(y[0, 0]),
    "fill with what does not fit": lambda x, y: x.fill_(1e300),
    "zero rows": lambda x, y: x[::2].zero_(),
    "turned": lambda x, y: x.T.exp_(),
    **{f"{k} = {v}": put(KEYS[k], VALUES[v]) for k in KEYS for v in VALUES},
    **{f"{key!r} = {value!r}": put(key, lambda x, y, value=value: value)
       for key in (0, (1, 2), ..., (slice(None), 1)) for value in (3, -2, 300, True, 2**70)},
    "an index = 7": put(ROWS, lambda x, y: 7),
    "a mask = 0": put(lambda x, y: x > 0, lambda x, y: 0),
    "all": put(slice(None), lambda x, y: y),
    "all by a row": put(slice(None), lambda x, y: y[0]),
    "all by a column": put(..., lambda x, y: y[:, :1]),
    "all by a row of its own": put(slice(None), lambda x, y: x[1]),
    "all by too many": put(slice(None), lambda x, y: y[None, :, :2]),
    "a copy of a row": lambda x, y: x.copy_(y[0]),
    "a copy of a column": lambda x, y: x.copy_(y[:, :1]),
    "a copy of its own row": lambda x, y: x.copy_(x[1]),
    "a copy of what does not fit": lambda x, y: x.copy_(y[:, :2]),
    "rows of its own": put(slice(0, 1), lambda x, y: x[1:2]),
    "truths": put_truths,
    "relu as asked": lambda x, y: F.relu(x, inplace=True),
    "leaky_relu as asked": lambda x, y: F.leaky_relu(x, 0.25, inplace=True),
    "elu as asked": lambda x, y: F.elu(x, 0.5, True),
    "out": lambda x, y: ad.add(y, 1, out=x),
    "out with a factor": lambda x, y: ad.add(y, y, alpha=2, out=x),
    "out of itself": lambda x, y: ad.mul(x, y, out=x),
    "out of a neighbour": lambda x, y: ad.add(x[:, 1:], 1, out=x[:, :-1]),
    "out of another shape": lambda x, y: ad.exp(y[:1], out=x),
    "out of another dtype": lambda x, y: ad.exp(y.double(), out=x),
    "out of a reduction": lambda x, y: ad.sum(y, 0, out=x[0]),
    "out of truths": lambda x, y: ad.gt(x, y, out=x),
    "out that is turned": lambda x, y: ad.maximum(y.T, y.T, out=x.T),
    "out that is expanded": lambda x, y: ad.exp(y, out=x[:1].expand(*y.shape)),
    "out of nothing": lambda x, y: ad.exp(y, out=None),
    "truths of its own": lambda x, y: x.logical_not_(),
    "truths of both": lambda x, y: x.logical_and_(y),
    "masked": lambda x, y: x.masked_scatter_(y > 0, y),
    "masked by its own": lambda x, y: x.masked_scatter_(y > 0, x),
    "masked by too few": lambda x, y: x.masked_scatter_(y == y, y[0]),
    "a diagonal": lambda x, y: x.fill_diagonal_(3),
    "a diagonal of what does not fit": lambda x, y: x.fill_diagonal_(1e300),
    "out of a join": lambda x, y: ad.cat([y[:1], y[1:]], out=x),
    "out of a join of its own": lambda x, y: ad.cat([x[1:], x[:1]], out=x),
    "out of another operand's shape": lambda x, y: ad.add(x[0], y, out=x[0]),
    "out of a product with itself": lambda x, y: ad.matmul(x, x.T @ x, out=x),
    "expanded": lambda x, y: x[:1].expand(3, x.shape[1]).add_(1),
    "expanded and filled": lambda x, y: x[:1].expand(3, x.shape[1]).fill_(4.0),
}  # fmt: skip


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs are made at the first call."""
    programs = StraightLater.loaded()
    programs.forget()
    small_calls.PROGRAMS.forget()
    monkeypatch.setattr(small_calls, "SIGHTED", 0)
    monkeypatch.setattr(small_calls, "LOADED", 0)
    monkeypatch.setattr("adjoint.engine.core.operations.small_calls.EVERY", 1)
    monkeypatch.setattr(public.OVERRIDES, "active", False)  # other tests have classes that override
    yield
    programs.forget()
    small_calls.PROGRAMS.forget()


def matrices() -> list[tuple[Any, Any]]:
    """Pairs that differ in values, shapes, dtypes and layouts."""
    rng = np.random.default_rng(7)
    pairs: list[tuple[Any, Any]] = []
    for shape in ((3, 4), (2, 5)):
        x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        special = rng.choice(SPECIAL, shape).astype(np.float32)
        pairs += [(x, y), (special, y), (y, special), (x.astype(np.float64), y.astype(np.float64))]
        pairs += [(rng.integers(-3, 4, shape), rng.integers(-3, 4, shape))]
        pairs += [
            (np.asfortranarray(x), y),
            (x, y.astype(np.float64)),
            (np.repeat(x, 2, 1)[:, ::2], y),
        ]
    return pairs  # fmt: skip


def outcome(write: Write, pair: tuple[Any, Any]) -> Any:
    """What a write leaves behind: elements, layout, version, what it gives, or the error."""
    x, y = (ad.from_numpy(array.copy(order="K")) for array in pair)
    before = x._version
    try:
        out = write(x, y)
        given: Any = out is x or (out._is_view() and tuple(out.shape))
    except Exception as error:
        given = type(error), str(error)
    elements = (x.numpy().tobytes(), y.numpy().tobytes())
    return given, elements, x.dtype, x.stride(), x._version - before


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", WRITES)
def test_writes_are_the_same_to_the_bit(name: str) -> None:
    write, pairs = WRITES[name], matrices()
    with CONTEXT.having(reference=True):
        want = [outcome(write, pair) for pair in pairs]
    for _ in range(3):
        for pair, wanted in zip(pairs, want, strict=True):
            got = outcome(write, pair)
            assert got[:4] == wanted[:4]
            assert (got[4] > 0) == (wanted[4] > 0)


@pytest.mark.skipif(
    loops.native() is None or loops.native().meet_into is None,  # type: ignore[union-attr]
    reason="objects are laid out otherwise here: nothing is met natively",
)
def test_writes_are_met() -> None:
    for write in WRITES.values():
        for _ in range(2):
            outcome(write, matrices()[0])
    met = {o.name for o in enlisted._owners if isinstance(o, SmallCalls) and o.into and o.small}
    wanted = "exp floor relu tril zero fill copy add mul div clamp masked_fill cumsum lerp scatter"
    assert set(wanted.split()) <= met


@pytest.mark.parametrize("shape", [(33, 35), (257, 131)], ids=str)
@pytest.mark.parametrize("dtype", [ad.float32, ad.bfloat16, ad.float16], ids=str)
def test_updates_have_the_bits_of_new_tensors(dtype: ad.dtype, shape: tuple[int, int]) -> None:
    """Halves, and more elements than rows take, by launches that write to their operand."""
    ad.manual_seed(0)
    rows, columns = shape
    around = (ad.randn(rows + 2, columns) * 3).to(dtype)
    kind = {4: ad.int32, 2: ad.int16}[dtype.itemsize]
    for name in ("abs", "ceil", "clamp", "exp", "floor", "neg", "relu", "sigmoid", "tril"):
        given = (-0.5, 1.5) if name == "clamp" else ()
        want = around.clone()
        want[1:-1] = getattr(around[1:-1].clone(), name)(*given)
        for _ in range(5):
            memory = around.clone()
            x = memory[1:-1]
            before = x._version
            assert getattr(x, f"{name}_")(*given) is x
            assert x._version > before
            assert ad.equal(memory.view(kind), want.view(kind)), name


def test_the_tape_is_heeded() -> None:
    for _ in range(4):
        x = ad.linspace(-1, 1, 4)
        x.exp_()  # a program of which there is
        leaf = ad.linspace(-1, 1, 4).requires_grad_()
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            leaf.exp_()
        inner = leaf * 1
        inner.exp_()
        inner.sum().backward()
        np.testing.assert_allclose(leaf.grad.numpy(), leaf.exp().detach().numpy(), rtol=1e-6)
        with ad.no_grad():
            leaf.exp_()
        whole = ad.zeros(4)
        part = whole[:2]
        whole.add_(leaf)
        assert part.exp_().requires_grad  # a view of what became part of the tape
        saved = ad.ones(4)
        out = (leaf * saved).sum()
        saved.exp_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_what_may_not_be_written_is_not() -> None:
    fixed = np.ones(4, np.float32)
    for _ in range(4):
        ad.ones(4).exp_(), ad.ones(4).fill_(2.0), ad.ones(4).scatter_(0, ad.tensor([1]), ad.ones(1))
        x = ad.ones(4)
        with pytest.raises((RuntimeError, IndexError)):
            x.scatter_(0, ad.tensor([7]), ad.full((1,), 5.0))
        assert x.tolist() == [1.0] * 4  # rows that fail write nothing
        fixed.flags.writeable = False
        held = ad.from_numpy(fixed)
        with pytest.raises((RuntimeError, ValueError)):
            held.exp_()
        with pytest.raises((RuntimeError, ValueError)):
            ad.exp(ad.ones(4), out=held)
        assert fixed.tolist() == [1.0] * 4
        with ad.inference_mode():
            inferred = ad.ones(4)
        with pytest.raises(RuntimeError, match="[Ii]nference"):
            inferred.exp_()
        assert inferred.tolist() == [1.0] * 4


def test_elements_that_lie_over_one_another_are_written_as_ever() -> None:
    for name in ("exp_", "neg_", "floor_"):
        shown = []
        for reference in (True, False, False):
            memory = ad.linspace(-2, 2, 6)
            over = memory.as_strided((2, 4), (2, 1))
            with CONTEXT.having(reference=reference):
                getattr(over, name)()
            shown.append(memory.tolist())
        assert shown[0] == shown[1] == shown[2]


def test_a_program_sees_writes() -> None:
    """Compiled functions and profilers see in-place operations that small programs know."""

    def call(x: ad.Tensor) -> ad.Tensor:
        return x.clone().exp_().add_(1.0)

    x = ad.linspace(0, 1, 4)
    for _ in range(4):
        want = call(x)
    np.testing.assert_allclose(ad.compile(call)(x).numpy(), want.numpy(), rtol=1e-6)
    with ad.profiler.profile() as profile:
        call(x)
    assert any("exp" in event.key for event in profile.key_averages())


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.int64, ad.bool, ad.bfloat16])
@pytest.mark.parametrize("value", [0, 1, -0.0, 2.5])
def test_fills_of_many_elements(dtype: ad.dtype, value: float) -> None:
    """Zeros are written as bytes, others by blocks: each element is what one alone is."""
    one = ad.tensor([value]).to(dtype)
    if dtype in (ad.bool, ad.int64):
        value = one.item()
    for shape in ((3,), (301, 203), (70_001,)):
        x = ad.ones(shape, dtype=dtype)
        view = x[::2]
        view.fill_(value)
        assert (x[1::2] == 1).all()
        for filled in (view, x.fill_(value), ad.full(shape, value, dtype=dtype)):
            assert (filled == one).all()
            if dtype.is_floating_point:
                assert (filled.signbit() == one.signbit()).all()


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_xor"])
def test_truths_are_written_to_every_dtype(name: str) -> None:
    for dtype in (ad.float32, ad.float64, ad.float16, ad.bfloat16, ad.int8, ad.uint8, ad.int64):
        x, y = ad.tensor([[0, 1, 2], [3, 0, 1]], dtype=dtype), ad.tensor([1, 0, 2], dtype=dtype)
        wanted = getattr(x, name)(y).tolist()
        for target in (x.clone(), x.t().contiguous().t()):
            before = target._version
            assert getattr(target, f"{name}_")(y) is target
            assert (target.dtype, target._version) == (dtype, before + 1)
            assert target.tolist() == wanted
    x = ad.ones(3, requires_grad=True)
    getattr(x.clone(), f"{name}_")(ad.zeros(3)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="shape"):
        getattr(ad.ones(3), f"{name}_")(ad.ones(2, 3))


OF_TWO = frozenset(
    "eq ge greater greater_equal gt isclose isin le less less_equal logical_and logical_or "
    "logical_xor lt ne not_equal".split()
)
GIVEN: dict[str, tuple[Any, ...]] = {
    "new_empty": ((2,),),
    "new_zeros": ((2,),),
    "new_ones": ((2,),),
    "new_full": ((2,), 3.0),
    "full_like": (2.0,),
    "randint_like": (5,),
    "bucketize": (ad.tensor([-1.0, 1.0]),),
    "searchsorted": (ad.tensor([[-1.0, 1.0]]),),
}
UNLIKE = {"empty_like", "new_empty", "rand_like", "randn_like", "randint_like"}  # each time


@pytest.mark.parametrize("name", sorted(UNFOLLOWED))
def test_what_no_gradient_leads_to_is_the_same_on_the_tape(name: str) -> None:
    plain, other = ad.tensor([[-1.5, 0.0, 2.0]]), ad.tensor([[0.0, 1.0, 2.0]])
    given = (other,) if name in OF_TWO else GIVEN.get(name, ())
    fn = getattr(ad.Tensor, name, None) or getattr(ad, name)
    leaf = plain.clone().requires_grad_()
    with CONTEXT.having(reference=True):
        want = fn(plain, *given)
        assert not fn(leaf, *given).requires_grad
    for _ in range(3):
        out = fn(leaf, *given)
        assert (out.requires_grad, out.dtype, out.shape) == (False, want.dtype, want.shape)
        assert name in UNLIKE or ad.equal(out, want)
    if hasattr(ad.Tensor, f"{name}_"):  # a write is followed as ever
        written = leaf * 1
        getattr(written, f"{name}_")(*given)
        assert written.requires_grad
