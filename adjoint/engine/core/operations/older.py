"""Calls with the order of arguments that PyTorch had first, and still takes: `x.add_(0.1, y)`.

The number comes before the tensors it scales. And those with NumPy's rarer names of arguments. Both
are looked at only when a call failed.
"""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.errors import warn_user
from adjoint.engine.core.operations.record import is_tensor

# Which number scales the tensors that follow, and how many those are.
SCALED = {
    "add": ("alpha", 1),
    "sub": ("alpha", 1),
    "addcmul": ("value", 2),
    "addcdiv": ("value", 2),
}
PRODUCTS = frozenset({"addmm", "addmv", "addr", "addbmm", "baddbmm"})
# NumPy's rarer names for arguments, which PyTorch accepts as well.
NUMPY_NAMES = {"x": "input", "a": "input", "x1": "input", "x2": "other"}

Call = tuple[tuple[Any, ...], dict[str, Any]]


def modern(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """The call as it is written today; None if it is not one of the older forms.

    `args` begins with the tensor that a method belongs to.
    """
    call = _scaled(name, args) if name in SCALED else None
    if name in PRODUCTS:
        call = _product(args)
    if call is None:
        return None
    warn_user(
        f"{name}: this order of arguments is deprecated. Pass the numbers by name: "
        f"{name}(..., {', '.join(f'{key}={value!r}' for key, value in call[1].items())})"
    )
    return call[0], {**kwargs, **call[1]}


def _scaled(name: str, args: tuple[Any, ...]) -> Call | None:
    number, count = SCALED[name]
    if number == "alpha" and len(args) == 3 and not any(map(is_tensor, args[1:])):
        return args[:2], {number: args[2]}  # `x.add(1, 2)`
    if len(args) != 2 + count or is_tensor(args[1]) or not all(map(is_tensor, args[2:])):
        return None
    return (args[0], *args[2:]), {number: args[1]}


def _product(args: tuple[Any, ...]) -> Call | None:
    """`x.addmm(beta, alpha, a, b)`, `addmm(beta, x, alpha, a, b)`, each also without alpha."""
    tensors = tuple(arg for arg in args if is_tensor(arg))
    numbers = [arg for arg in args if not is_tensor(arg)]
    begins = is_tensor(args[0]) if args else True
    places = [place for place, arg in enumerate(args) if not is_tensor(arg)]
    wanted = ([1], [1, 2]) if begins else ([0], [0, 2])
    if len(tensors) != 3 or places not in wanted:
        return None
    return tensors, dict(zip(("beta", "alpha"), numbers, strict=False))


def in_our_names(names: tuple[str, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Keywords with NumPy's rarer names replaced; None if there are none that can be."""
    renamed = {
        theirs: ours
        for theirs, ours in NUMPY_NAMES.items()
        if theirs in kwargs and theirs not in names and ours in names and ours not in kwargs
    }
    if len(set(renamed.values())) != len(renamed):
        return None
    return {renamed.get(name, name): value for name, value in kwargs.items()} if renamed else None
