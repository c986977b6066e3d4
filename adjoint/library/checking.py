"""Checking an operation of one's own: what was registered for it against what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.engine.compiler.api import compile as compiled
from adjoint.engine.tensor.tensor import Tensor
from adjoint.library.custom import CustomOpDef
from adjoint.library.functions import _find
from adjoint.testing import assert_close
from adjoint.utils._pytree import tree_leaves, tree_map


class OpCheckError(Exception):
    """An operation does something else than what was registered for it."""


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _copies(values: Any) -> Any:
    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return tree_map(copy, values)


def test_schema(op: CustomOpDef, args: Any, kwargs: Any, **_: Any) -> None:
    """It writes to no arguments but those it says, and returns none of them."""
    given, named = _copies((args, kwargs))
    before = [tensor_before.detach().clone() for tensor_before in _tensors((given, named))]
    out = op(*given, **named)
    if not op._mutates:
        for tensor, old in zip(_tensors((given, named)), before, strict=True):
            assert_close(tensor.detach(), old, rtol=0, atol=0, equal_nan=True)
    operands = {id(operand) for operand in _tensors((given, named))}
    if any(id(result) in operands for result in _tensors(out)):
        raise OpCheckError("it returns one of its arguments")


def test_autograd_registration(op: CustomOpDef, args: Any, kwargs: Any, **_: Any) -> None:
    """Where an argument wants a gradient, a derivative is registered."""
    wanted = any(tensor.requires_grad for tensor in _tensors((args, kwargs)))
    if wanted and not op._mutates and op._backward is None:
        raise OpCheckError("an argument requires a gradient, and no derivative is registered")


def test_faketensor(op: CustomOpDef, args: Any, kwargs: Any, **_: Any) -> None:
    """What `register_fake` says its results look like is what they look like."""
    given, named = _copies((args, kwargs))
    real = _tensors(op(*given, **named))
    if op._mutates:
        return

    def blank(value: Any) -> Any:
        return value.detach().to("meta") if isinstance(value, Tensor) else value

    fake = _tensors(op(*tree_map(blank, args), **tree_map(blank, kwargs)))
    looks = [[(tuple(tensor.shape), tensor.dtype) for tensor in some] for some in (real, fake)]
    if looks[0] != looks[1]:
        raise OpCheckError(f"its results are {looks[0]}; register_fake says {looks[1]}")


def test_aot_dispatch_dynamic(
    op: CustomOpDef, args: Any, kwargs: Any, *, rtol: float | None, atol: float | None
) -> None:
    """Compiled, it gives the same results and derivatives."""
    results = []
    for call in (op, compiled(lambda *a, **k: op(*a, **k))):
        given, named = _copies((args, kwargs))
        out = _tensors(call(*given, **named))
        for result in out:
            if result.requires_grad:
                result.sum().backward(retain_graph=True)
        results.append([*(value.detach() for value in out), *_gradients((given, named))])
    assert_close(results[1], results[0], rtol=rtol, atol=atol, equal_nan=True)


def _gradients(values: Any) -> list[Tensor]:
    return [tensor.grad for tensor in _tensors(values) if tensor.grad is not None]


CHECKS: dict[str, Callable[..., None]] = {
    check.__name__: check
    for check in (
        test_schema, test_autograd_registration, test_faketensor, test_aot_dispatch_dynamic
    )
}  # fmt: skip


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = tuple(CHECKS),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check what was registered for an operation on an example.

    Args:
        op: the operation, or its name.
        args: arguments to call it with.
        kwargs: keyword arguments to call it with.
        test_utils: which checks to make; all unless given.
        raise_exception: raise for the first that fails; else all are made.
        atol: absolute tolerance of compiled results.
        rtol: relative tolerance of compiled results.

    Returns:
        By check, "SUCCESS" or the exception.
    """
    operation = _find(op)
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise RuntimeError(f"opcheck: no check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    outcomes: dict[str, Any] = {}
    for name in names:
        options = {"rtol": rtol, "atol": atol} if name == "test_aot_dispatch_dynamic" else {}
        try:
            CHECKS[name](operation, args, kwargs or {}, **options)
            outcomes[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck({operation._qualname}): {name} failed: {error}"
                ) from error
            outcomes[name] = error
    return outcomes
