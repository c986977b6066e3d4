"""Transforms made of other transforms."""

from __future__ import annotations

import weakref
from math import prod
from typing import Any

from adjoint.distributions import constraints
from adjoint.distributions.transform import Transform
from adjoint.distributions.utils import sum_rightmost
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.spec import Size
from adjoint.engine.ops.shape.join import cat, stack
from adjoint.engine.tensor.tensor import Tensor


class ComposeTransform(Transform):
    """Transforms one after another; an empty list is the identity.

    Args:
        parts: the transforms, first to last.
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The first part's, with enough dimensions for all."""
        if not self.parts:
            return constraints.real
        first = self.parts[0].domain
        rank = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            rank += part.domain.event_dim - part.codomain.event_dim
            rank = max(rank, part.domain.event_dim)
        more = rank - first.event_dim
        return constraints.independent(first, more) if more > 0 else first

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The last part's, with enough dimensions for all."""
        if not self.parts:
            return constraints.real
        last = self.parts[-1].codomain
        rank = self.parts[0].domain.event_dim
        for part in self.parts:
            rank += part.codomain.event_dim - part.domain.event_dim
            rank = max(rank, part.codomain.event_dim)
        more = rank - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        sign: Any = 1
        for p in self.parts:
            sign = sign * p.sign
        return sign

    @property
    def inv(self) -> Transform:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0
        rank = self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            log_det = part.log_abs_det_jacobian(before, after)
            total = total + sum_rightmost(log_det, rank - part.domain.event_dim)
            rank += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(p) for p in self.parts)
        return f"ComposeTransform(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform whose Jacobian is summed over further dimensions.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many dimensions join an event.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The base's, with further dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The base's, with further dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.ndim < self.domain.event_dim:
            raise ShapeValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.ndim < self.codomain.event_dim:
            raise ShapeValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        result = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Events in another shape.

    Args:
        in_shape: the shape of an input event.
        out_shape: the shape of a result event.
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape = Size(in_shape)
        self.out_shape = Size(out_shape)
        if prod(self.in_shape) != prod(self.out_shape):
            raise ShapeValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Events of the input shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Events of the result shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def _swapped(self, shape: Any, old: Size, new: Size) -> Any:
        cut = len(shape) - len(old)
        if cut < 0:
            raise ShapeValueError("Too few dimensions on input")
        if tuple(shape[cut:]) != tuple(old):
            raise ShapeValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {old}")
        return Size((*shape[:cut], *new))

    def forward_shape(self, shape: Any) -> Any:
        return self._swapped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._swapped(shape, self.out_shape, self.in_shape)


def _check_parts(name: str, tseq: Any) -> None:
    for t in tseq:
        if not isinstance(t, Transform):
            raise AssertionError(
                f"{name}: all elements of tseq must be Transform instances, received a "
                f"{type(t).__name__}"
            )


class CatTransform(Transform):
    """Transforms of consecutive pieces along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: the length of each piece; 1 by default.
    """

    transforms: list[Transform]

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        _check_parts("CatTransform", tseq)
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The length of the whole."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, x: Tensor) -> list[Tensor]:
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        pieces = zip(self.transforms, self._pieces(x), strict=True)
        return cat([t(piece) for t, piece in pieces], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = zip(self.transforms, self._pieces(y), strict=True)
        return cat([t.inv(piece) for t, piece in pieces], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = []
        for t, before, after in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            log_det = t.log_abs_det_jacobian(before, after)
            parts.append(sum_rightmost(log_det, self.event_dim - t.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.ndim
        dim += self.event_dim
        return cat(parts, dim) if dim < 0 else sum(parts[1:], parts[0])

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The parts' domains, joined."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The parts' codomains, joined."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of the slices along a dimension.

    Args:
        tseq: the transforms.
        dim: the dimension.
    """

    transforms: list[Transform]

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        _check_parts("StackTransform", tseq)
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Tensor) -> list[Tensor]:
        return list(x.unbind(self.dim))

    def _call(self, x: Tensor) -> Tensor:
        slices = zip(self.transforms, self._slices(x), strict=True)
        return stack([t(part) for t, part in slices], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        slices = zip(self.transforms, self._slices(y), strict=True)
        return stack([t.inv(part) for t, part in slices], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return stack([t.log_abs_det_jacobian(a, b) for t, a, b in pairs], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The slices' domains, stacked."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The slices' codomains, stacked."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
