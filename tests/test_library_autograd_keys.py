"""What is registered for custom operations with keys of autograd: a function in their place."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint._C import _AutoDispatchBelowAutograd

CALLS: list[str] = []


def defined(name: str) -> tuple[Any, Any]:
    """A library with an operation of one tensor, whose kernel doubles; and the operation."""
    CALLS.clear()
    library = ad.library.Library(name, "DEF")
    library.define("f(Tensor x) -> Tensor")

    def kernel(x: Any) -> Any:
        CALLS.append("kernel")
        return x * 2

    library.impl("f", kernel, "CPU")
    return library, getattr(ad.ops, name).f


@pytest.mark.parametrize("key", ["AutogradCPU", "Autograd"])
def test_a_function_of_other_operations_is_differentiated(key: str) -> None:
    library, f = defined(f"keysone{key.lower()}")

    def above(x: Any) -> Any:
        CALLS.append("above")
        return x**3

    library.impl("f", above, key)
    x = ad.tensor([2.0], requires_grad=True)
    f(x).backward()
    assert x.grad is not None
    assert x.grad.item() == 12
    with ad.no_grad():  # the key is there without gradients, too
        assert f(x).item() == 8
    assert CALLS == ["above", "above"]
    with ad.inference_mode():
        assert f(x).item() == 4
    assert CALLS[-1] == "kernel"
    assert ad.func.vmap(f)(ad.tensor([1.0, 2.0])).tolist() == [1, 8]


def test_the_key_of_a_device_goes_before_that_of_all_and_others_are_not_called() -> None:
    library, f = defined("keystwo")
    library.impl("f", lambda x: x * 100, "AutogradCUDA")
    assert f(ad.ones(1)).item() == 2
    library.impl("f", lambda x: x * 10, "Autograd")
    assert f(ad.ones(1)).item() == 10
    library.impl("f", lambda x: x * 5, "AutogradCPU")
    assert f(ad.ones(1)).item() == 5
    with pytest.raises(RuntimeError, match="could not parse dispatch key"):
        library.impl("f", lambda x: x, "AutogradNowhere")


def test_a_function_with_a_backward_calls_the_operation_below_the_tape() -> None:
    library, f = defined("keysthree")

    class Doubled(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with _AutoDispatchBelowAutograd():
                return f(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 7

    library.impl("f", Doubled.apply, "Autograd")
    x = ad.ones(2, requires_grad=True)
    out = f(x)
    assert out.tolist() == [2, 2]
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [7, 7]
    assert CALLS == ["kernel"]


def test_compiled() -> None:
    library, f = defined("keysfour")
    library.impl("f", lambda x: x.sin() * 3, "AutogradCPU")
    call = ad.compile(lambda x: f(x) + 1)
    x = ad.tensor([0.3, 0.7], requires_grad=True)
    (grad,) = ad.autograd.grad(call(x).sum(), x)
    assert ad.allclose(grad, 3 * x.detach().cos())
    assert ad.allclose(call(x), x.sin() * 3 + 1)


def test_a_key_is_registered_before_the_operation_is_defined() -> None:
    library = ad.library.Library("keysfive", "FRAGMENT")
    library.impl("f", lambda x: x * 4, "Autograd")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * 2, "CPU")
    assert ad.ops.keysfive.f(ad.ones(1)).item() == 4
