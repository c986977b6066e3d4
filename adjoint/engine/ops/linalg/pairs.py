"""Linear algebra of complex matrices whose numbers are pairs of reals along a further dimension."""

from __future__ import annotations

from typing import Any

from adjoint.engine.core.operations.families import primitive
from adjoint.engine.core.operations.record import REGISTRY, Record
from adjoint.engine.core.spec import Spec


def as_complex(x: Spec) -> Spec:
    """The complex tensor that pairs are."""
    return Spec(x.shape[:-1], x.dtype.to_complex(), x.device)


def as_pairs(x: Spec) -> Spec:
    """A complex tensor as pairs; others as they are."""
    return Spec((*x.shape, 2), x.dtype.to_real(), x.device) if x.dtype.is_complex else x


def _infer(*specs: Spec, function: str, pairs: tuple[bool, ...], **params: Any) -> Any:
    given = [as_complex(x) if paired else x for x, paired in zip(specs, pairs, strict=True)]
    found = REGISTRY[function].infer(*given, **params)
    return as_pairs(found) if isinstance(found, Spec) else tuple(map(as_pairs, found))


# OF_PAIRS[n](*x, function, pairs, **params): the record that `function` names, of n results; which
# operands are `pairs`, and so are its complex results. Compiled programs bring it to this.
OF_PAIRS: dict[int, Record] = {
    n: primitive(f"of_pairs_{n}", _infer, None, outputs=n, operands=("*x",), fails="values")
    for n in (1, 2, 3)
}
