"""Sample calls, by family: the rows every conformance check runs over.

A row names a function by its public path and gives arguments, tensors as descriptions:

    S("linalg.solve", T(3, 3, kind="spd"), T(3))
    S("Tensor.index_add_", T(4, 3), 0, T(2, kind="int", low=0, high=4), T(2, 3))

The path is looked up in the package ("Tensor." means a method); the first tensor is `self`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Values of a kind stay away from kinks and poles, so that finite differences are meaningful.
KINDS = ("real", "positive", "unit", "distinct", "int", "int32", "int8", "bool", "spd", "complex")


@dataclass(frozen=True)
class T:
    """A tensor argument: shape, kind of values and range. `grad=False`: a constant."""

    shape: tuple[int, ...]
    kind: str
    low: float
    high: float
    grad: bool

    def __init__(
        self, *shape: int, kind: str = "real", low: float = -2, high: float = 2, grad: bool = True
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, received {kind!r}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "grad", grad and kind not in ("int", "int32", "int8", "bool"))

    def array(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Elements drawn from `rng`."""
        shape, low, high = self.shape, self.low, self.high
        match self.kind:
            case "real":
                return rng.uniform(low, high, shape)
            case "positive":
                return rng.uniform(0.3, max(high, 1.0), shape)
            case "unit":
                return rng.uniform(-0.9, 0.9, shape)
            case "distinct":
                n = int(np.prod(shape))
                return (rng.permutation(n).reshape(shape) - n / 2) * 0.35 + 0.1
            case "int":
                return rng.integers(int(low), int(high), shape)
            case "int32" | "int8":
                return rng.integers(int(low), int(high), shape).astype(self.kind)
            case "bool":
                return rng.integers(0, 2, shape).astype(bool)
            case "spd":
                a = rng.uniform(-1, 1, shape)
                return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(shape[-1])
            case "complex":
                return rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)
            case _:
                raise ValueError(self.kind)


@dataclass(frozen=True)
class S:
    """One call. Options: `grad`, `vmap`, `capture` False where the operation cannot.

    `random`: the results are samples, equal only after the same seed, and for the same dtype.
    """

    path: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    grad: bool = True
    vmap: bool = True
    capture: bool = True
    random: bool = False

    def __init__(self, path: str, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "random", kwargs.pop("_random", False))
        for option in ("grad", "vmap", "capture"):
            fits = option == "capture" or not self.random
            object.__setattr__(self, option, kwargs.pop(f"_{option}", fits))
        object.__setattr__(self, "kwargs", kwargs)

    def __repr__(self) -> str:
        parts = [_show(a) for a in self.args]
        parts += [f"{k}={_show(v)}" for k, v in self.kwargs.items()]
        return f"{self.path}({', '.join(parts)})"


def _show(x: Any) -> str:
    if isinstance(x, T):
        return f"{x.kind}{list(x.shape)}"
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(map(_show, x)) + "]"
    return repr(x)
