"""Functions taken over by values, subclasses and modes."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine.core.operations.overrides import OVERRIDES, concerns_nobody
from adjoint.engine.tensor.overriding import KNOWN_AS
from adjoint.overrides import (
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    _members,
    handle_torch_function,
    has_torch_function,
    resolve_name,
)


class Tagged(ad.Tensor):
    """A subclass that says nothing of its own."""


class Duck:
    """No tensor, but it answers."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (func.__name__, len(args))


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: ad.exp(x),
        lambda x: x.sum(),
        lambda x: ad.cat([ad.ones(1), x]),
        lambda x: ad.ones(3) * x,
        lambda x: x[0],
        lambda x: ad.split(x, 2)[0],
    ],
)
def test_operations_keep_a_subclass(made: Any) -> None:
    x = ad.arange(3.0).as_subclass(Tagged)
    out = made(x)
    assert type(out) is Tagged
    assert ad.equal(out.as_subclass(ad.Tensor), made(ad.arange(3.0)))


def test_parameters_and_plain_tensors_stay_plain() -> None:
    assert type(ad.nn.Parameter(ad.ones(2)) + 1) is ad.Tensor
    with DisableTorchFunctionSubclass():
        assert type(ad.ones(2).as_subclass(Tagged) + 1) is ad.Tensor


def test_a_subclass_differentiates() -> None:
    x = ad.arange(3.0, requires_grad=True)
    (x.as_subclass(Tagged) ** 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 2.0, 4.0]


def test_a_value_that_is_no_tensor_answers() -> None:
    assert ad.add(Duck(), 1) == ("add", 2)  # type: ignore[arg-type]
    assert ad.cat([Duck()]) == ("cat", 1)  # type: ignore[list-item]
    assert has_torch_function((1, Duck()))
    assert not has_torch_function((1, ad.ones(1)))
    assert handle_torch_function(ad.mul, (Duck(),), Duck(), 2) == ("mul", 2)


# Methods of a plain tensor that are given one which may answer, and what PyTorch calls them.
GIVEN: dict[str, Any] = {
    "add": lambda x, y: x.add(y),
    "sub": lambda x, y: x.sub(y, alpha=2),
    "matmul": lambda x, y: x.matmul(y),
    "add_": lambda x, y: x.add_(y),
    "mul_": lambda x, y: x.mul_(y),
    "copy_": lambda x, y: x.copy_(y),
    "expand_as": lambda x, y: x.expand_as(y),
    "clamp": lambda x, y: x.clamp(min=y),
    "masked_fill": lambda x, y: x.masked_fill(x > 0, y),
    "where": lambda x, y: x.where(x > 0, y),
    "equal": lambda x, y: x.equal(y),
    "type_as": lambda x, y: x.type_as(y),
    "lerp": lambda x, y: x.lerp(y, 0.5),
    "div": lambda x, y: x / y,
    "__eq__": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
}


@pytest.mark.parametrize("name", [*GIVEN])
@pytest.mark.parametrize("first", [True, False])
def test_what_a_method_is_given_answers(
    name: str, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if first:  # as in a process that has met none yet
        monkeypatch.setattr(OVERRIDES, "active", False)
        monkeypatch.setattr(OVERRIDES, "enlisted", False)
    assert GIVEN[name](ad.ones(2, 2), Duck())[0] == name


def test_an_operator_of_ones_own_comes_first() -> None:
    class Adds(Duck):
        def __radd__(self, other: Any) -> str:
            return "mine"

    assert ad.ones(2) + Adds() == "mine"


@pytest.mark.parametrize("name", ["add", "matmul", "expand_as", "where", "lerp", "__eq__", "clamp"])
def test_methods_keep_the_class_of_what_they_are_given(name: str) -> None:
    plain, given = ad.ones(2, 2), ad.full((2, 2), 3.0)
    out = GIVEN[name](plain, given.as_subclass(Tagged))
    assert type(out) is Tagged
    assert ad.equal(out.as_subclass(ad.Tensor), GIVEN[name](plain, given))


def test_small_calls_go_on_where_classes_that_override_were_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OVERRIDES, "active", True)
    monkeypatch.setattr(OVERRIDES, "enlisted", True)
    x, y, tagged = ad.ones(3, 5), ad.ones(3, 5), ad.ones(3, 5).as_subclass(Tagged)
    calls: dict[str, Any] = {
        "operator": lambda x, y: x * y,
        "method": lambda x, y: x.maximum(y),
        "function": lambda x, y: ad.atan2(x, y),
        "list": lambda x, y: ad.cat([x, y]),
        "keyword": lambda x, y: ad.add(x, other=y),
    }
    for name, call in calls.items():
        for _ in range(64):  # until a program is made
            plain = call(x, y)
        assert type(plain) is ad.Tensor
        for mixed in (call(x, tagged), call(tagged, y)):
            assert (type(mixed), mixed.tolist()) == (Tagged, plain.tolist()), name
        with AsTexts():
            assert call(x, y) == "asked", name


class AsTexts(TorchFunctionMode):
    """A mode that answers for everything."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
        return "asked"


@pytest.mark.parametrize(
    ("given", "nobody"),
    [
        ((1, 2.0, None, "a", slice(1)), True),
        (([ad.ones(1), 2], (ad.float32,)), True),
        (([ad.ones(1).as_subclass(Tagged)],), False),
        ((Duck(),), False),
        (([[1]],), False),  # not looked into, so not known
    ],
)
def test_whom_a_call_concerns(given: Any, nobody: bool) -> None:
    assert concerns_nobody(given, {}) is nobody
    assert concerns_nobody((), {"x": given[0]}) is (nobody or given[0] == 1)
    with AsTexts():
        assert not concerns_nobody(given, {})


def test_nobody_answers() -> None:
    class Silent:
        @classmethod
        def __torch_function__(cls, *_: Any) -> Any:
            return NotImplemented

    with pytest.raises(TypeError, match="no implementation found for 'add'"):
        ad.add(Silent(), 1)  # type: ignore[arg-type]


def test_modes_nest_and_end() -> None:
    class Naming(TorchFunctionMode):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    plain = ad.Tensor.__add__
    with Naming() as outer, Naming() as inner:
        y = ad.sin(ad.ones(2)).add(1)
    assert inner.seen == outer.seen == ["ones", "sin", "add"]
    ad.ones(2) + 1
    assert inner.seen == ["ones", "sin", "add"]
    assert ad.Tensor.__add__ is plain
    assert y.shape == (2,)


def test_names() -> None:
    assert resolve_name(ad.add) == "torch.add"
    assert resolve_name(ad.Tensor.add) == "torch.Tensor.add"


def test_operators_are_known_by_their_methods() -> None:
    seen: list[str] = []

    class Watching(ad.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = ad.ones(2, 2).as_subclass(Watching)
    results = [x + 1, 2 * x, x / 2, -x, x.T, x.mT, x @ x]
    assert all(type(each) is Watching for each in results)
    assert seen[:4] == ["add", "mul", "div", "neg"]
    assert seen.count("__get__") == 2


def test_tensors_of_another_library_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's have the protocol too, and would hand a call back without end."""

    def override(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    names = {"__module__": "torch", "__torch_function__": classmethod(override)}
    foreign = type("Tensor", (), names)()
    x: Any = ad.ones(2)
    calls: tuple[Any, ...] = (
        lambda: x + foreign,
        lambda: x == foreign,
        lambda: ad.exp(foreign),
        lambda: ad.cat([x, foreign]),
        lambda: ad.tensor(foreign),
        lambda: x.copy_(foreign),
    )
    before = OVERRIDES.active, OVERRIDES.enlisted
    try:
        for call in calls:
            with pytest.raises(TypeError, match=r"PyTorch's among the operands. Convert it first"):
                call()
    finally:
        OVERRIDES.active, OVERRIDES.enlisted = before
    monkeypatch.setattr(math.exp, "__module__", "torch")
    with pytest.raises(TypeError, match=r"exp: a function of PyTorch's .* Call adjoint.exp"):
        ad.Tensor.__torch_function__(math.exp, (ad.Tensor,), (x,))  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"(to: expected a device|received a Tensor of PyT)"):
        x.to(foreign)
    with pytest.raises(TypeError, match="device: expected a device, its name or a number"):
        ad.device(foreign)


class Recording(ad.Tensor):
    """Notes what it is asked, and runs nothing."""

    asked: list[Any] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked.append(func)
        return "asked"


NO_OPERAND = frozenset(
    "__abs__ __neg__ __pos__ __invert__ __len__ __repr__ __bool__ __int__ __float__ __complex__ "
    "__index__ __reversed__ __dlpack_device__".split()
)
FETCHED = {"abs": ad.Tensor.abs, "dim": ad.Tensor.dim, "add_": ad.Tensor.add_}  # before any class
NOBODYS = {"__array_namespace__", "__cuda_array_interface__", "_indices"}  # PyTorch has others
MEMBERS = sorted({*_members()} - NOBODYS)


@pytest.mark.parametrize("how", ["of Tensor", "of the tensor", "of super"])
def test_members_ask_however_they_are_called(how: str) -> None:
    for name in MEMBERS:
        x = ad.ones(2, 2).as_subclass(Recording)
        of: Any = {"of Tensor": ad.Tensor, "of the tensor": x, "of super": super(Recording, x)}[how]
        Recording.asked.clear()
        if isinstance(getattr(ad.Tensor, name), property):
            if how == "of Tensor":
                getattr(of, name).__get__(x)
            else:
                getattr(of, name)
            shown: Any = getattr(ad.Tensor, name).__get__
        else:
            given: tuple[int, ...] = (1,)
            if not name.startswith("__") or name in NO_OPERAND:
                given = ()
            elif name == "__setitem__":
                given = (1, 1)
            getattr(of, name)(*((x,) if how == "of Tensor" else ()), *given)
            shown = getattr(ad.Tensor, KNOWN_AS.get(name, name))
        assert Recording.asked[:1] == [shown], name


def test_functions_fetched_before_a_class_was_made_ask_it() -> None:
    class Later(Recording):
        asked: list[Any] = []

    for function in FETCHED.values():
        assert function(ad.ones(2).as_subclass(Later), *((1,) if "_" in function.__name__ else ()))
    assert Later.asked == [*FETCHED.values()]


def test_a_member_that_is_replaced_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Any = vars(ad.Tensor)["dim"]
    shown: Any = ad.Tensor.dim
    x: Any = ad.ones(2, 2)
    monkeypatch.setattr(ad.Tensor, "dim", lambda self: 7)
    assert (x.dim(), ad.Tensor.dim(x), ad.ones(1).as_subclass(Tagged).dim()) == (7, 7, 7)
    ad.Tensor.dim = shown  # type: ignore[method-assign]
    assert vars(ad.Tensor)["dim"] is plain
    assert (x.dim(), ad.Tensor.dim is shown) == (2, True)
    with AsTexts():
        assert (x.dim(), shown(x)) == ("asked", "asked")
    assert vars(ad.Tensor)["dim"] is plain
    Tagged.dim = lambda self: 9  # type: ignore[method-assign]
    try:
        assert (ad.ones(1).as_subclass(Tagged).dim(), x.dim()) == (9, 2)
    finally:
        del Tagged.dim
    assert ad.ones(1).as_subclass(Tagged).dim() == 1


def test_methods_of_ones_own_go_on_with_super() -> None:
    class Keeps(ad.Tensor):
        def clone(self, *args: Any, **kwargs: Any) -> Any:
            return super().clone(*args, **kwargs)

        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(key)

        @property
        def T(self) -> Any:  # type: ignore[override]
            return super().T

    x = ad.arange(6.0).reshape(2, 3).as_subclass(Keeps)
    assert [type(y) for y in (x.clone(), x[0], x.T, x.data, x.detach())] == [Keeps] * 5
    x.requires_grad_().sum().backward()
    assert type(x.grad) is ad.Tensor  # as in PyTorch: a gradient is shown as it is


class WithUnit(ad.Tensor):
    """A tensor whose attribute goes along."""

    unit: str

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]
        if isinstance(out, WithUnit):
            out.unit = next(x.unit for x in args if isinstance(x, WithUnit))
        return out


def test_attributes_go_along() -> None:
    x = ad.arange(3.0).as_subclass(WithUnit)
    x.unit = "s"
    made = {
        "a function": ad.exp(x),
        "a view": x[1:],
        "copy": copy.copy(x),
        "deepcopy": copy.deepcopy(x),
        "a parameter": ad.nn.Parameter(x),
        "written to": ad.ones(3).copy_(x),  # as in PyTorch: shown as a WithUnit
        "in place": x.clone().add_(1),
    }
    for name, y in made.items():
        assert (type(y), getattr(y, "unit", None)) == (WithUnit, "s"), name
    assert isinstance(made["a parameter"], ad.nn.Parameter)
    padded = ad.nn.utils.rnn.pad_sequence([ad.ones(2).as_subclass(Tagged), ad.ones(1)])
    assert (type(padded), padded.tolist()) == (Tagged, [[1.0, 1.0], [1.0, 0.0]])
    with pytest.warns(UserWarning, match="copy construct"):
        assert type(ad.tensor(x)) is ad.Tensor  # which asks no class
    assert made["copy"]._storage is x._storage


def test_keys_and_what_is_written_are_asked() -> None:
    key = ad.tensor([0]).as_subclass(Recording)
    Recording.asked.clear()
    x: Any = ad.ones(2, 2)
    assert x[key] == "asked"
    x[0] = key
    assert Recording.asked == [ad.Tensor.__getitem__, ad.Tensor.__setitem__]
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


class Noting(ad.Tensor):
    """Notes what it is asked, and goes on as a tensor does."""

    asked: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


def test_conversions_ask_what_they_convert_to() -> None:
    x = ad.arange(3.0)
    for of in (Tagged, Noting):
        other: Any = ad.zeros(2).as_subclass(of)
        assert type(x.to(other)) is type(x.type_as(other)) is of
        assert x.to(other).tolist() == [0, 1, 2]
    duck: Any = Duck()
    assert x.to(duck) == ("to", 2)
    assert x.type_as(duck) == ("type_as", 2)


def test_derivatives_ask_what_is_differentiated_and_by_what() -> None:
    x: Any = ad.arange(3.0).as_subclass(Noting).requires_grad_()
    (g,) = ad.autograd.grad((x * x).sum(), x)
    assert type(g) is Noting
    loss = (x * x).sum()
    Noting.asked.clear()
    ad.autograd.backward(loss)
    assert Noting.asked == ["backward"]
    assert x.grad.tolist() == [0, 2, 4]
    y, duck = ad.ones(2, requires_grad=True), Duck()
    assert ad.autograd.grad(y.sum(), duck) == ("grad", 2)
    assert ad.autograd.grad(y.sum(), {"y": y})["y"].tolist() == [1, 1]
