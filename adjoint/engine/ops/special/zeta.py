"""The Hurwitz zeta function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import Record
from adjoint.engine.ops.special.real import real_elementwise

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _no_order(x: Any) -> Any:
    # It has no closed form; PyTorch has none either.
    raise NotImplementedError(
        "zeta: the derivative by the order (the first argument) is not implemented. Detach it."
    )


ZETA: Record = real_elementwise("zeta", _no_order, lambda x, y: -x * ZETA(x + 1, y))


@public(out=True, namespaces=("special",))
def zeta(input: Any, other: Any) -> Tensor:
    """The Hurwitz zeta function, the sum over k >= 0 of (k + other) ** -input.

    >>> import adjoint as ad
    >>> ad.special.zeta(ad.tensor(2.0), 1)
    tensor(1.6449)
    """
    return ZETA(input, other)
