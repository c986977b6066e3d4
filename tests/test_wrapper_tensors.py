"""Classes with `__torch_dispatch__`, and fake tensors; plain tensors are the oracle."""

from __future__ import annotations

import copy
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake
from adjoint.engine.core.errors import CaptureError
from adjoint.engine.tensor.tensor import Tensor
from adjoint.overrides import _disabled_torch_function_impl
from adjoint.utils._pytree import tree_map


class Held(Tensor):
    """Stands for the tensor that it holds, and notes what is done with it."""

    seen: list[str] = []
    elem: Tensor

    def __new__(cls, elem: Tensor, requires_grad: bool = False) -> Any:
        return Tensor._make_wrapper_subclass(
            cls, elem.shape, dtype=elem.dtype, device=elem.device, requires_grad=requires_grad
        )

    def __init__(self, elem: Tensor, requires_grad: bool = False) -> None:
        self.elem = elem

    __torch_function__ = staticmethod(_disabled_torch_function_impl)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        cls.seen.append(func.__name__.partition(".")[0])
        args, kwargs = tree_map(lambda t: getattr(t, "elem", t), (args, kwargs or {}))
        found = func(*args, **kwargs)
        return tree_map(lambda t: cls(t) if isinstance(t, Tensor) else t, found)


def inside(x: Any) -> Any:
    return x.elem if isinstance(x, Held) else x


PROGRAMS = {
    "product": lambda w, x: (x @ w).exp().sum(),
    "softmax": lambda w, x: (x @ w).softmax(-1).log().square().mean(),
    "views": lambda w, x: (w.t().reshape(-1)[2:] * w.flatten()[:-2]).sum() + x.sum(),
    "linear": lambda w, x: nn.functional.linear(x, w.t()).relu().std(),
    "joined": lambda w, x: (ad.cat([w, x[:, :2]], dim=-2) ** 2).sum() + ad.stack([w, w], 1).sum(),
    "many": lambda w, x: (w.max(0).values + w.split(1)[0]).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_wrappers_compute_and_differentiate_as_what_they_hold(name: str) -> None:
    w, x = ad.randn(3, 2), ad.randn(4, 3)
    plain = w.clone().requires_grad_()
    wrapper = Held(w.clone(), requires_grad=True)
    expected, found = PROGRAMS[name](plain, x), PROGRAMS[name](wrapper, x)
    assert type(found) is Held
    assert found.requires_grad
    ad.testing.assert_close(found.elem, expected.detach())
    expected.backward()
    found.backward()
    ad.testing.assert_close(inside(wrapper.grad), plain.grad)


def test_writes_and_names_reach_the_class() -> None:
    wrapper = Held(ad.ones(2))
    Held.seen.clear()
    wrapper.add_(1)
    wrapper.zero_()
    wrapper += 3
    wrapper[0] = 5
    assert Held.seen == ["add_", "zero_", "add_", "setitem"]
    assert wrapper.tolist() == [5, 3]
    ad.testing.assert_close(wrapper.detach().elem, wrapper.elem)
    assert ad.ops.aten.add.Tensor == ad.ops.aten.add.default
    assert ad.ops.aten.add.Tensor != ad.ops.aten.sub.Tensor


def test_parameters_stay_wrappers() -> None:
    weight = ad.randn(2, 3)
    layer = nn.Linear(3, 2, bias=False)
    layer.weight = nn.Parameter(Held(weight))
    assert isinstance(layer.weight, nn.Parameter)
    x = ad.randn(4, 3)
    out: Any = layer(x)
    ad.testing.assert_close(out.elem, x @ weight.t())
    out.sum().backward()
    ad.testing.assert_close(inside(layer.weight.grad), x.sum(0).expand(2, 3))


def test_wrappers_in_files() -> None:
    """A file may hold one where the program says that its class is safe."""
    layer = nn.Linear(3, 2, bias=False)
    layer.weight = nn.Parameter(Held(ad.arange(6.0).reshape(2, 3)))
    file = BytesIO()
    ad.save(layer.state_dict(), file)
    with pytest.raises(UnpicklingError, match="Held"):
        ad.load(BytesIO(file.getvalue()), weights_only=True)
    with ad.serialization.safe_globals([Held]):
        weight = ad.load(BytesIO(file.getvalue()), weights_only=True)["weight"]
    assert type(weight) is Held
    assert (weight.shape, weight.elem.tolist()) == ((2, 3), [[0, 1, 2], [3, 4, 5]])
    assert (weight + 1).elem.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_what_is_not_there_is_refused() -> None:
    class Silent(Tensor):
        """Says nothing of operations."""

    with pytest.raises(RuntimeError, match="must define __torch_dispatch__"):
        Tensor._make_wrapper_subclass(Silent, (2,))
    with pytest.raises(NotImplementedError, match="not changed in place on the tape"):
        Held(ad.ones(2), requires_grad=True).mul_(2)
    with pytest.raises(CaptureError, match="not recorded"):
        ad.compile(lambda x: x * 2, fullgraph=True)(Held(ad.ones(2)))


def test_fake_tensors_have_shapes_and_gradients() -> None:
    with FakeTensorMode() as mode:
        net = nn.Sequential(nn.Linear(1000, 5000), nn.BatchNorm1d(5000), nn.ReLU())
        y = net(ad.randn(64, 1000))
        y.sum().backward()
        seen: Any = mode.from_tensor(ad.ones(3, 4)).t() + ad.ones(3)
    assert is_fake(y)
    assert tuple(y.shape) == (64, 5000)
    assert isinstance(net[0].weight, nn.Parameter)
    assert tuple(net[0].weight.grad.shape) == (5000, 1000)
    assert isinstance(seen, FakeTensor)
    assert tuple(seen.shape) == (4, 3)
    assert seen.device.type == "cpu"
    assert is_fake(y * 2)
    with pytest.raises(RuntimeError, match="meta tensors"):
        y.sum().item()
    with FakeTensorMode(), pytest.raises(RuntimeError, match="convert all Tensors"):
        ad.ones(2) * ad.nn.Parameter.__new__(ad.nn.Parameter, _real())


def _real() -> Tensor:
    with ad.utils._python_dispatch._disable_current_modes():
        return ad.ones(2)


def test_a_tensor_on_a_file(tmp_path: Path) -> None:
    file = str(tmp_path / "numbers")
    shared = ad.from_file(file, shared=True, size=4)
    shared.copy_(ad.arange(4.0))
    own = ad.from_file(file, size=4)
    ad.testing.assert_close(own, ad.arange(4.0))
    own.zero_()
    ad.testing.assert_close(ad.from_file(file, size=2), ad.arange(2.0))
    with pytest.raises(RuntimeError, match="Pass shared=True"):
        ad.from_file(file, size=99)
    with pytest.raises(ValueError, match="negative"):
        ad.from_file(file, size=-1)


def test_handlers_are_given_what_is_joined_as_one_list() -> None:
    """As PyTorch calls `aten.cat` and `aten.stack`: the tensors in a list, then the dimension."""
    given: list[Any] = []

    class Asked(Held):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            given.append((func.__name__, len(args[0]), args[1:], kwargs))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Asked(ad.ones(2, 3))
    assert inside(ad.cat([x, x], dim=-1)).shape == (2, 6)
    assert inside(ad.cat((x, x))).shape == (4, 3)
    assert inside(ad.stack([x, x], dim=1)).shape == (2, 2, 3)
    assert [entry[:3] for entry in given] == [
        ("cat.default", 2, (1,)),
        ("cat.default", 2, ()),
        ("stack.default", 2, (1,)),
    ]


class Flat(Held):
    """One that says which tensors it is made of."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Flat:
        return Flat(inner["elem"])


@pytest.mark.parametrize("kind", [Flat, Held])
def test_a_modules_conversion_reaches_what_wrappers_hold(kind: type[Held]) -> None:
    """Of a class that says what it holds by itself, of others where parameters are exchanged."""
    layer = nn.Linear(2, 3)
    layer.weight = weight = nn.Parameter(kind(layer.weight.detach()))
    ad.__future__.set_swap_module_params_on_conversion(kind is Held)
    try:
        for dtype in (ad.float64, ad.bfloat16):
            layer.to(dtype)
            assert layer.weight is weight
            assert isinstance(weight, kind)
            assert weight.requires_grad
            assert weight.dtype is inside(weight).dtype is dtype
    finally:
        ad.__future__.set_swap_module_params_on_conversion(False)


def test_writes_past_the_class_reach_it() -> None:
    class Goes(Held):
        def mul_(self, other: Any) -> Any:
            return super().mul_(other)

    x: Any = Goes(ad.ones(2))
    assert ad.Tensor.add_(x, 2) is x
    x.mul_(5)
    ad.Tensor.div_(x, 3)
    assert x.elem.tolist() == [5.0, 5.0]


def test_numbers_of_wrappers() -> None:
    one, two = Held(ad.ones(())), Held(ad.tensor(2))
    assert bool(one)
    assert not Held(ad.zeros(1))
    assert (int(two), float(one), complex(one), [5, 6, 7][two]) == (2, 1.0, 1 + 0j, 7)
    assert ad.is_nonzero(one)
    assert 2.0 in Held(ad.arange(3.0))
    assert 7 not in Held(ad.arange(3.0))
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(Held(ad.ones(2)))


def test_results_into_wrappers_and_out_of_them() -> None:
    x, held, plain = ad.arange(3.0), Held(ad.arange(3.0)), ad.zeros(3)
    into = Held(ad.zeros(3))
    for given in (held, x):
        assert ad.add(ad.ones(3), given, out=into) is into
        assert into.elem.tolist() == [1, 2, 3]
    assert ad.add(held, held, out=plain) is plain
    assert plain.tolist() == [0, 2, 4]
    assert plain.copy_(held).tolist() == [0, 1, 2]
    assert plain.add_(held).tolist() == [0, 2, 4]


def test_copies_of_wrappers() -> None:
    held = Held(ad.arange(3.0))
    (other, same), data = copy.deepcopy([held, held]), held.data
    assert same is other
    assert (type(other), type(data)) == (Held, Held)
    assert data.elem.tolist() == [0, 1, 2]
    other.add_(1)
    assert (held.elem.tolist(), other.elem.tolist()) == ([0, 1, 2], [1, 2, 3])
    layer = nn.Linear(3, 1, bias=False)
    layer.weight = nn.Parameter(Held(ad.ones(1, 3)))
    twin = copy.deepcopy(layer)
    assert twin.weight.requires_grad
    assert twin(ad.ones(2, 3)).elem.tolist() == [[3], [3]]
