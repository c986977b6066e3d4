"""Optimizers' rules on large parameters run as programs, and do what they do by the eager table."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.backends.array import in_place
from adjoint.engine.core.operations import large
from adjoint.engine.core.operations.record import HOOKS
from adjoint.engine.graph.eager import recorded_updates, updates
from adjoint.engine.graph.eager.updates import UPDATES
from adjoint.optim.stepping import large_parameters
from adjoint.profiler import profile
from tests.compiling_anew import recorded_anew

optim = ad.optim
RULES: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "ascent": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "one by one": lambda p: optim.AdamW(p, lr=0.1, foreach=False),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "adadelta": optim.Adadelta,
    "adamax": lambda p: optim.Adamax(p, lr=0.1),
    "asgd": lambda p: optim.ASGD(p, lr=0.1, t0=2),
    "nadam": lambda p: optim.NAdam(p, lr=0.1, decoupled_weight_decay=True, weight_decay=0.1),
    "radam": lambda p: optim.RAdam(p, lr=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.1, centered=True, momentum=0.9),
    "rprop": lambda p: optim.Rprop(p, lr=0.1),
    "lion": lambda p: optim.Lion(p, lr=0.1, weight_decay=0.1),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.1),
    "lamb": lambda p: optim.LAMB(p, lr=0.1),
    "muon": lambda p: optim.Muon(p, lr=0.1),
}
SUMS = {"adafactor", "lamb", "muon"}  # sums of many elements depend on their order


@pytest.fixture(autouse=True)
def made_anew() -> Iterator[None]:
    """What other tests' optimizers compiled is not there, nor is anything left for them."""
    UPDATES.forget()
    yield
    UPDATES.forget()


def train(
    make: Callable[..., Any], least: int, monkeypatch: pytest.MonkeyPatch, dtype: Any, seed: int
) -> list[Any]:
    """Parameters and state after some steps, during which a scheduler changes the numbers."""
    monkeypatch.setattr(large, "UPDATED", least)
    rng = np.random.default_rng(seed)
    shapes = [(int(rng.integers(1, 9)), int(rng.integers(1, 9))) for _ in range(3)]
    params = [ad.tensor(rng.standard_normal(s)).to(dtype).requires_grad_() for s in shapes]
    params[0] = params[0].detach().t().requires_grad_()
    optimizer = make(params)
    for step in range(5):
        for p in params:
            p.grad = ad.tensor(rng.standard_normal(p.shape)).to(dtype)
        if step == 3:
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
                if "betas" in group:
                    group["betas"] = (0.5, 0.9)
        optimizer.step()
    held = [v for p in params for v in optimizer.state[p].values()]
    return [x.detach().double().numpy() for x in (*params, *held)]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.bfloat16])
@pytest.mark.parametrize("name", RULES)
def test_programs_do_what_the_rules_do(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = [*RULES].index(name)
    got = train(RULES[name], 1, monkeypatch, dtype, seed)
    assert any(UPDATES.by_kind.values()), "nothing ran as a program"
    want = train(RULES[name], 0, monkeypatch, dtype, seed)
    least = {ad.bfloat16: 2e-2, ad.float32: 2e-5, ad.float64: 1e-12}[dtype]
    for mine, theirs in zip(got, want, strict=True):
        if name in SUMS or dtype is ad.bfloat16:
            np.testing.assert_allclose(mine, theirs, rtol=least, atol=least)
        else:
            np.testing.assert_array_equal(mine, theirs)


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rules that are compiled after a recording."""
    compiled, made = recorded_updates.compiled, []

    def noted(*args: Any) -> Any:
        rule = compiled(*args)
        made.append(rule)
        return rule

    monkeypatch.setattr(recorded_updates, "compiled", noted)
    return made


# Sums, several answers, functions of a rule's own, state that is put there later.
KEPT = ("nesterov", "adam", "adafactor", "asgd", "radam")


@pytest.mark.parametrize("name", KEPT)
def test_rules_found_on_disk_are_those_recorded(
    name: str, recordings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Note [kept updates]."""
    train(RULES[name], 1, monkeypatch, ad.float32, 0)  # now they are on disk
    UPDATES.forget()
    recordings.clear()
    got = train(RULES[name], 1, monkeypatch, ad.float32, 0)
    assert not recordings
    assert all(rule.is_unrecorded for rules in UPDATES.by_kind.values() for rule in rules or ())
    UPDATES.forget()
    with recorded_anew():
        want = train(RULES[name], 1, monkeypatch, ad.float32, 0)
    assert recordings
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_only_rules_of_the_package_are_found(
    recordings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Users(optim.Adam):
        """Nothing but another name, yet its module is nobody's that is known."""

    called: list[Any] = []

    def twice(self: Any, p: Any, grad: Any, state: Any, group: Any) -> None:
        called.append(p)
        p.sub_(grad * 2)

    kinds = (optim.Adam, Users)
    for kind in (*kinds, *kinds):
        train(lambda p, kind=kind: kind(p, lr=0.1), 1, monkeypatch, ad.float64, 1)
        UPDATES.forget()
        recordings.append(kind)
    second = recordings[recordings.index(Users) + 1 :]
    assert second.index(optim.Adam) == 0
    assert second.index(Users) > 1
    monkeypatch.setattr(optim.Adam, "update", twice)
    recordings.clear()
    train(lambda p: optim.Adam(p, lr=0.1), 1, monkeypatch, ad.float64, 1)
    assert len(called) == 3 * 5  # parameters and steps


@pytest.mark.parametrize("place", ["optim.adam:decay", "optim.stepping.terms:is_tensor"])
def test_rules_that_call_functions_of_others_have_no_name(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where those say that they are the package's, and where they are called further in."""
    module, name = place.split(":")
    there = importlib.import_module(f"adjoint.{module}")
    old = getattr(there, name)
    for kind in (optim.Adam, optim.SGD, optim.Adafactor, optim.ASGD, optim.RAdam, optim.Muon):
        assert large_parameters.is_of_this_package(kind), kind
    wrapped = functools.wraps(old)(lambda *args: old(*args))
    for other in (lambda *args: old(*args), wrapped, functools.partial(old), type("Own", (), {})):
        monkeypatch.setattr(there, name, other)
        assert not large_parameters.is_of_this_package(optim.Adam)


def test_names_of_rules_tell_them_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[bytes | None] = []
    name_of = updates.name_of

    def noted(*args: Any) -> None:
        names.append(name_of(*args))

    monkeypatch.setattr(updates, "name_of", noted)
    for make in (
        lambda p: optim.Adam(p), lambda p: optim.Adam(p, amsgrad=True), optim.AdamW,
        lambda p: optim.Adam(p, maximize=True), lambda p: optim.SGD(p), optim.Adamax,
    ):  # fmt: skip
        for dtype in (ad.float32, ad.bfloat16):
            train(make, 1, monkeypatch, dtype, 2)
            UPDATES.forget()
    assert None not in names
    firsts = {*names}
    monkeypatch.setattr(large_parameters, "code_of_rules", lambda: "others")
    names.clear()
    train(optim.Adam, 1, monkeypatch, ad.float32, 2)
    assert len(firsts) >= 12
    assert names
    assert firsts.isdisjoint(names)


def test_who_looks_on_sees_what_is_recorded(
    recordings: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        train(RULES["adamw"], 1, monkeypatch, ad.float32, 4)
        recordings.clear()
    with profile():
        train(RULES["adamw"], 1, monkeypatch, ad.float32, 4)
    assert recordings
    assert not any(r.is_unrecorded for rules in UPDATES.by_kind.values() for r in rules or ())


def one_step(p: Any, grad: Any, **options: Any) -> Any:
    p.grad = grad
    optimizer = optim.SGD([p], lr=0.5, **options)
    optimizer.step()
    return optimizer


def test_numbers_change_without_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "UPDATED", 1)
    p = ad.zeros(8, requires_grad=True)
    optimizer = optim.SGD([p], lr=1.0)
    for lr in (0.5, 0.25, 0.125):
        optimizer.param_groups[0]["lr"] = lr
        p.grad = ad.ones(8)
        optimizer.step()
    assert p.tolist() == [-0.875] * 8
    (made,) = UPDATES.by_kind.values()
    assert made is not None
    assert len(made) == 1


def test_what_the_rule_asks_of_numbers_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program made without weight decay is not used with it."""
    monkeypatch.setattr(large, "UPDATED", 1)
    p = ad.ones(8, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.5)
    for rate, want in ((0.0, 0.5), (1.0, -0.25), (0.0, -0.75)):
        optimizer.param_groups[0]["weight_decay"] = rate
        p.grad = ad.ones(8)
        optimizer.step()
        assert p.tolist() == [want] * 8
    (made,) = UPDATES.by_kind.values()
    assert made is not None
    assert len(made) == 2


def test_shared_memory_is_left_to_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "UPDATED", 1)
    memory = np.ones(9, np.float32)
    p = ad.from_numpy(memory[:8]).requires_grad_()
    one_step(p, ad.from_numpy(memory[1:]))
    assert not UPDATES.by_kind
    assert memory.tolist() == [0.5] * 8 + [1.0]


def test_memory_that_must_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.ones(8, np.float32)
    values.flags.writeable = False
    p = ad.from_numpy(values).requires_grad_()
    outcomes = []
    for least in (0, 1):
        monkeypatch.setattr(large, "UPDATED", least)
        with pytest.raises((RuntimeError, ValueError)) as raised:
            one_step(p, ad.ones(8))
        outcomes.append((type(raised.value), str(raised.value)))
    assert outcomes[0] == outcomes[1]


def test_versions_tell_of_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "UPDATED", 1)
    p = ad.ones(8, requires_grad=True)
    kept = (p * p).sum()
    before = p._version
    one_step(p, ad.ones(8))
    assert p._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


def test_options_that_are_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "UPDATED", 1)
    p = ad.ones(8, requires_grad=True)
    p.grad = ad.ones(8)
    optim.Adam([p], lr=ad.tensor(0.5), capturable=True).step()
    np.testing.assert_allclose(p.detach().numpy(), 0.5, rtol=1e-6)
    assert not UPDATES.by_kind


def test_a_users_rule_runs_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "UPDATED", 1)

    class Shy(optim.SGD):  # type: ignore[misc, name-defined]
        def update(self, p: Any, grad: Any, state: Any, group: Any) -> None:
            assert p.is_leaf
            p.sub_(grad)

    p = ad.ones(8, requires_grad=True)
    p.grad = ad.ones(8)
    Shy([p], lr=0.5).step()
    assert p.tolist() == [0.0] * 8
    assert not UPDATES.by_kind


def test_a_failed_compilation_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise NotImplementedError("no such target")

    monkeypatch.setattr(large, "UPDATED", 1)
    monkeypatch.setattr(HOOKS, "compile_operation", fail)
    monkeypatch.setattr(HOOKS, "find_operation", lambda *_: None)
    p = ad.ones(8, requires_grad=True)
    with pytest.warns(UserWarning, match="SGD.*could not be compiled.*no such target"):
        one_step(p, ad.ones(8))
    one_step(p, ad.ones(8))  # without a second warning
    assert p.tolist() == [0.0] * 8


IN_PLACE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda x, y: x.add_(y), lambda a, b: a + b),
    "sub": (lambda x, y: x.sub_(y), lambda a, b: a - b),
    "mul": (lambda x, y: x.mul_(y), lambda a, b: a * b),
    "div": (lambda x, y: x.div_(y), lambda a, b: a / b),
    "a number": (lambda x, y: x.mul_(0.1), lambda a, b: a * a.dtype.type(0.1)),
    "a multiple": (lambda x, y: x.add_(y, alpha=0.3), lambda a, b: a + b * a.dtype.type(0.3)),
    "less a multiple": (lambda x, y: x.sub_(y, alpha=3), lambda a, b: a - b * a.dtype.type(3)),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_cores_change_large_tensors_in_place(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program where it is met again, which gives the bits that NumPy gives."""
    monkeypatch.setattr(in_place, "_met", {})
    change, reference = IN_PLACE[name]
    rng = np.random.default_rng(len(name))
    a, b = (rng.standard_normal((1031, 257)).astype(dtype) for _ in range(2))
    a[0, :4], b[0, :4] = [np.inf, -np.inf, np.nan, -0.0], [0, np.inf, 1, 0]
    with np.errstate(all="ignore"):
        want = reference(a, b)
    for _ in range(in_place.MET_BEFORE + 2):
        x, y = ad.tensor(a), ad.tensor(b)
        version = x._version
        assert change(x, y) is x
        assert x._version == version + 1
        np.testing.assert_array_equal(x.numpy(), want)
        assert np.array_equal(np.signbit(x.numpy())[a == a], np.signbit(want)[a == a])
        np.testing.assert_array_equal(y.numpy(), b)
    assert len(UPDATES.by_kind) == (large.WAITS and 1)


# What else is changed in place: what is done to x with y and a mask, and how often it is rounded.
FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "neg": lambda x, y, m: x.neg_(),
    "clamp": lambda x, y, m: x.clamp_(-0.5, 0.5),
    "clamp by whole numbers": lambda x, y, m: x.clamp_(-1, 1),
    "exp": lambda x, y, m: x.exp_(),
    "silu": lambda x, y, m: ad.nn.functional.silu(x, inplace=True),
    "leaky_relu": lambda x, y, m: ad.nn.functional.leaky_relu_(x, 0.1),
    "pow": lambda x, y, m: x.pow_(3),
    "masked_fill": lambda x, y, m: x.masked_fill_(m, 2),
    "a row": lambda x, y, m: x.mul_(y[3]),
    "itself": lambda x, y, m: x.mul_(x),
    "addcmul": lambda x, y, m: x.addcmul_(y, y, value=0.5),
    "lerp": lambda x, y, m: x.lerp_(y, 0.3),
    "eq": lambda x, y, m: x.eq_(y),
    "tril": lambda x, y, m: x.tril_(-1),
    "other dtype": lambda x, y, m: x.add_(y.double()),
    "a divisor": lambda x, y, m: x.remainder_(3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_large_tensors_have_the_same_bits_in_place(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program or not, of rows, columns or part of a tensor, they are what a new result is."""
    monkeypatch.setattr(in_place, "_met", {})
    monkeypatch.setattr(in_place, "MET_BEFORE", 2)
    rng = np.random.default_rng(len(name))
    a, b = (rng.standard_normal((260, 256)).astype(np.float32) * 2 for _ in range(2))
    a[0, :4] = [np.inf, -np.inf, np.nan, -0.0]
    for dtype in (ad.float32, ad.bfloat16, ad.int64):
        if dtype is ad.int64:
            if name in ("exp", "silu", "leaky_relu", "addcmul", "lerp", "clamp", "other dtype"):
                continue
            a = np.nan_to_num(a, posinf=1, neginf=1)
        y = ad.tensor(b).to(dtype)
        results = []
        for lies in ("rows", "columns", "part"):
            for _ in range(4):
                x = ad.tensor(a if lies != "part" else np.concatenate([a, a])).to(dtype)
                x = (
                    x[:260]
                    if lies == "part"
                    else x.t().contiguous().t()
                    if lies == "columns"
                    else x
                )
                version = x._version
                assert FUNCTIONS[name](x, y, y > 0) is x
                assert x._version == version + 1
                results.append(x.double().numpy().tobytes())
        assert len({*results}) == 1


def test_what_shares_memory_or_is_seen_otherwise_is_changed_by_one_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Overlapping operands, other dtypes: as they are, with no program."""
    monkeypatch.setattr(in_place, "_met", {})
    size = large.AT_ONCE
    base = np.arange(2 * size, dtype=np.float32)
    for _ in range(in_place.MET_BEFORE + 2):
        memory = ad.tensor(base)
        memory[1 : size + 1].add_(memory[:size])
        want = base.copy()
        want[1 : size + 1] += base[:size]
        np.testing.assert_array_equal(memory.numpy(), want)
        x = ad.tensor(base)
        x.mul_(ad.ones(2 * size, dtype=ad.float64))
        np.testing.assert_array_equal(x.numpy(), base)
    assert not any(UPDATES.by_kind.values())
