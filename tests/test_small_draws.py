"""Draws as programs, new and in place: the same bits, generators, tape and errors as ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.llvm.small import loops
from adjoint.engine.core.operations import public
from adjoint.engine.core.operations.small_calls import SmallCalls
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.core.state.stand_ins import StraightLater
from adjoint.engine.graph.eager import drawn as draws
from adjoint.engine.graph.eager import enlisted, small_calls

Call = Callable[..., Any]
# Of a vector of probabilities and what names a generator: none, or one.
NEW: dict[str, Call] = {
    "rand": lambda p, **g: ad.rand(len(p), dtype=p.dtype, **g),
    "randn": lambda p, **g: ad.randn(len(p), dtype=p.dtype, **g),
    "rand_like": lambda p, **g: ad.rand_like(p, **g),
    "randint": lambda p, **g: ad.randint(-3, 1 << 40, (len(p),), **g),
    "randperm": lambda p, **g: ad.randperm(len(p), **g),
    "randperm int32": lambda p, **g: ad.randperm(len(p), dtype=ad.int32, **g),
    "bernoulli": lambda p, **g: ad.bernoulli(p, **g),
    "normal": lambda p, **g: ad.normal(0.5, 2.0, (len(p),), **g),
    "normal of tensors": lambda p, **g: ad.normal(p, p + 1, **g),
    "poisson": lambda p, **g: ad.poisson(p * 20, **g),
    "poisson of what is no rate": lambda p, **g: ad.poisson(p - 0.5, **g),
    "gamma": lambda p, **g: ad._standard_gamma(p * 3 + 0.125, **g),
    "binomial": lambda p, **g: ad.binomial(p * 50, p, **g),
    "multinomial": lambda p, **g: ad.multinomial(p + 0.125, 3, **g),
    "multinomial again": lambda p, **g: ad.multinomial(p + 0.125, 9, True, **g),
    "multinomial of none": lambda p, **g: ad.multinomial(p * 0, 9, True, **g),
}
# Of a tensor that is drawn into.
FILLS: dict[str, Call] = {
    "uniform_": lambda x, **g: x.uniform_(-1, 2, **g),
    "normal_": lambda x, **g: x.normal_(0.5, 2.0, **g),
    "log_normal_": lambda x, **g: x.log_normal_(**g),
    "exponential_": lambda x, **g: x.exponential_(1.5, **g),
    "exponential_ of no rate": lambda x, **g: x.exponential_(-1.0, **g),
    "cauchy_": lambda x, **g: x.cauchy_(**g),
    "geometric_": lambda x, **g: x.geometric_(0.2, **g),
    "bernoulli_": lambda x, **g: x.bernoulli_(0.25, **g),
    "bernoulli_ of tensors": lambda x, **g: x.bernoulli_(ad.full((x.shape[-1],), 0.25), **g),
    "random_": lambda x, **g: x.random_(**g),
    "random_ below": lambda x, **g: x.random_(100, **g),
}


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
    with CONTEXT.having(device=None):
        yield
    programs.forget()
    small_calls.PROGRAMS.forget()


def has_programs(name: str) -> bool:
    """Whether native code finds some program of a function."""
    return any(isinstance(o, SmallCalls) and o.name == name and o.small for o in enlisted._owners)


needs_native = pytest.mark.skipif(
    loops.native() is None or loops.native().meet_call is None,  # type: ignore[union-attr]
    reason="objects are laid out otherwise here: nothing is met natively",
)


def told(call: Call, *given: Any, **named: Any) -> Any:
    """Bytes and layout of what a call gives, or its error."""
    try:
        out = call(*given, **named)
    except Exception as error:
        return type(error), str(error)
    array = out.detach().contiguous().view(ad.uint8).numpy() if out.numel() else b""
    return out.dtype, tuple(out.shape), out.stride(), bytes(array), out.requires_grad


def probabilities() -> list[ad.Tensor]:
    rng = np.random.default_rng(3)
    kinds = ((9, ad.float32), (130, ad.bfloat16), (33, ad.float64))
    return [ad.from_numpy(rng.random(n)).to(dtype) for n, dtype in kinds]


@pytest.mark.parametrize("name", NEW)
def test_new_tensors_have_the_same_bits(name: str) -> None:
    """So does what the generator gives after them, also after an error."""
    call, ps = NEW[name], probabilities()

    def drawn() -> list[Any]:
        ad.manual_seed(3)
        source = ad.Generator().manual_seed(1 << 63)
        rows = []
        for p, generator in [*[(p, None) for p in ps], (ps[0], source)]:
            for _ in range(3):
                rows.append(told(call, p, generator=generator))
                rows.append(
                    (ad.get_rng_state().numpy().tobytes(), source.get_state().numpy().tobytes())
                )
        return rows

    with CONTEXT.having(reference=True):
        want = drawn()
    assert drawn() == want
    assert drawn() == want


def targets(dtype: ad.dtype) -> list[ad.Tensor]:
    """Tensors of several layouts, some of them parts of others."""
    wide = ad.zeros(6, 40, dtype=dtype)
    return [
        ad.zeros(67, dtype=dtype), ad.zeros(0, dtype=dtype), ad.zeros(5, 3, dtype=dtype).T,
        wide[1], ad.zeros(40, 300, dtype=dtype), ad.zeros((), dtype=dtype).expand(4),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [ad.float32, ad.bfloat16, ad.int64], ids=str)
@pytest.mark.parametrize("name", FILLS)
def test_fills_have_the_same_bits(name: str, dtype: ad.dtype) -> None:
    call = FILLS[name]

    def drawn() -> list[Any]:
        ad.manual_seed(3)
        source = ad.Generator().manual_seed(11)
        rows: list[Any] = []
        xs = targets(dtype)
        for x, generator in [*[(x, None) for x in xs], (xs[0], source)]:
            for _ in range(3):
                before = x._version
                rows.append((told(call, x, generator=generator), x._version - before))
                rows.append((told(lambda x=x: x), ad.get_rng_state().numpy().tobytes()))
            rows.append(source.get_state().numpy().tobytes())
        return rows

    with CONTEXT.having(reference=True):
        want = drawn()
    assert drawn() == want
    assert drawn() == want


def test_to_make_a_program_makes_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried by calls of its own kind, for which none is made once more."""
    made: list[str] = []
    compiled = draws.compiled_draw

    def counted(drawing: draws.DrawCall) -> Any:
        made.append(drawing.name)
        return compiled(drawing)

    monkeypatch.setattr(draws, "compiled_draw", counted)
    ad.rand(9)  # one for itself, one with the generator it is tried with
    ad.rand(9, generator=ad.Generator())
    ad.zeros(9).normal_()
    assert sorted(made) == ["normal_", "rand", "rand"]


@needs_native
def test_programs_are_met() -> None:
    p, x = probabilities()[0], ad.zeros(9)
    for _ in range(3):
        for call in NEW.values():
            told(call, p)
        for call in FILLS.values():
            told(call, x)
    names = (
        "rand randn rand_like randint randperm bernoulli normal poisson binomial multinomial "
        "_standard_gamma uniform_ normal_ log_normal_ exponential_ cauchy_ geometric_ bernoulli_ "
        "random_"
    )
    assert [name for name in names.split() if not has_programs(name)] == []


def test_the_tape_and_read_only_memory_have_their_say() -> None:
    for _ in range(3):
        ad.zeros(9).normal_()
    leaf = ad.zeros(9, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.normal_()
    with ad.no_grad():
        assert leaf.normal_() is leaf
    assert leaf.abs().sum().item() > 0
    y = leaf * 1
    square = y * y
    y.normal_()
    assert not y.requires_grad or y.grad_fn is not None
    with pytest.raises(RuntimeError, match="modified"):
        square.sum().backward()
    plain, followed = ad.zeros(12), leaf * 1
    for _ in range(3):
        plain[3:].normal_()  # a view of what the tape does not follow has a program
        followed[3:].normal_()
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[3:].normal_()
    assert plain.tolist()[:3] == [0, 0, 0]
    assert plain.count_nonzero() == 9
    (grad,) = ad.autograd.grad(followed.sum(), leaf)
    assert grad.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0]
    fixed = np.zeros(9, np.float32)
    fixed.flags.writeable = False
    with CONTEXT.having(reference=True):
        want = told(ad.from_numpy(fixed).normal_)
    assert told(ad.from_numpy(fixed).normal_) == want
    assert not fixed.any()
    with ad.inference_mode():
        kept = ad.zeros(9)
    assert told(kept.normal_) == told(kept.add_, 1)


def test_probabilities_that_share_memory_are_read_first() -> None:
    """What is drawn into is where they lie, shifted by one."""

    def drawn() -> list[Any]:
        ad.manual_seed(0)
        whole = ad.cat([ad.zeros(40), ad.ones(41)])
        rows = []
        for _ in range(3):
            told(ad.zeros(80).bernoulli_, whole[1:].clone())
            rows.append(told(whole[:-1].bernoulli_, whole[1:]))
            rows.append(told(whole.bernoulli_, whole))
        return rows

    with CONTEXT.having(reference=True):
        want = drawn()
    assert drawn() == want


def test_subclasses_and_the_capture_stay_as_they_were() -> None:
    for _ in range(3):
        ad.zeros(9).uniform_()

    def step(x: ad.Tensor) -> ad.Tensor:
        return x * ad.rand_like(x).uniform_(1, 2)

    ad.manual_seed(5)
    want = step(ad.ones(9))
    ad.manual_seed(5)
    assert (ad.compile(step)(ad.ones(9)) == want).all()
    rows = ad.vmap(lambda x: x.clone().uniform_(), randomness="different")(ad.zeros(4, 9))
    assert len({*rows.flatten().tolist()}) == 36
