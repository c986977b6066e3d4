"""Gamma-distributed samples that differentiate by their shape parameter.

A sample x of shape a satisfies F(x; a) = u for a uniform u that does not depend on a, so
dx/da = -(dF/da) / (dF/dx): the implicit derivative (Figurnov, Mohamed, Mnih 2018).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.engine.core import dtype as dt
from adjoint.engine.core.operations.families import elementwise
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.state.rng import Generator
from adjoint.engine.ops.random.random import draw
from adjoint.engine.ops.random.tensor_parameters import by_place, drawn_law

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _no_second(x: Any) -> Any:
    raise NotImplementedError(
        "standard_gamma: the second derivative by a gamma distribution's shape is not implemented. "
        "Detach the sample, or its gradient, before differentiating again."
    )


# STANDARD_GAMMA_GRAD(shape, sample): dx/da of the sample at its shape.
STANDARD_GAMMA_GRAD = elementwise(
    "standard_gamma_grad", _no_second, _no_second, accepts="f", fragment="composed"
)
# STANDARD_GAMMA(words, shape): each word names a stream of its own.
STANDARD_GAMMA = elementwise(
    "standard_gamma",
    None,
    lambda y, out: STANDARD_GAMMA_GRAD(y, out),
    promotes_from=1,
    accepts="f",
    draws=True,
    fragment="composed",
    by_library=True,  # one launch as it is
)


STANDARD_GAMMA_DRAWN = drawn_law(STANDARD_GAMMA, "standard_gamma_drawn")


@public(name="_standard_gamma")
def standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of the gamma distributions with the shapes in `input` and rate 1."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"_standard_gamma: not implemented for {input.dtype.name!r}")
    out = by_place(STANDARD_GAMMA_DRAWN, "_standard_gamma", input, generator)
    if out is not None:
        return out
    shape = tuple(input.shape)
    words = draw("_standard_gamma", "bits", (), shape, dt.int64, input.device, generator)
    return STANDARD_GAMMA(words, input)


@public(name="_standard_gamma_grad")
def standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """The derivative of gamma samples `output` by their shapes `input`."""
    return STANDARD_GAMMA_GRAD(input, output)
