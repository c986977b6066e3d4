"""Transforms made of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import nn
from adjoint.data.transforms.draw import chance
from adjoint.engine.ops.random.random import rand, randperm
from adjoint.vision.transforms.v2.sample import Transform


class _OfTransforms(Transform):
    """What they share: transforms, and samples that go through them."""

    def __init__(self, transforms: Sequence[Callable[..., Any]] | nn.ModuleList) -> None:
        super().__init__()
        if not isinstance(transforms, (Sequence, nn.ModuleList)):
            raise TypeError("Argument transforms should be a sequence of callables")
        if not len(transforms):
            raise ValueError("Pass at least one transform")
        self.transforms = transforms

    def through(self, transforms: Any, inputs: tuple[Any, ...]) -> Any:
        """A sample after one transform and another."""
        several = len(inputs) > 1
        for transform in transforms:
            sample = transform(*inputs)
            inputs = sample if several else (sample,)
        return inputs if several else inputs[0]

    def extra_repr(self) -> str:
        return "\n".join(f"    {transform}" for transform in self.transforms)


class Compose(_OfTransforms):
    """Transforms one after another.

    Example:
        >>> Compose([Lambda(lambda x: x + 1), Lambda(lambda x: x * 2)])({"label": 3})
        {'label': 8}
    """

    def forward(self, *inputs: Any) -> Any:
        return self.through(self.transforms, inputs)


class RandomApply(_OfTransforms):
    """Transforms applied together with a probability."""

    def __init__(
        self, transforms: Sequence[Callable[..., Any]] | nn.ModuleList, p: float = 0.5
    ) -> None:
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        return self.through(self.transforms if chance(self.p) else (), inputs)


class RandomChoice(_OfTransforms):
    """One of several transforms, picked anew for each sample.

    Args:
        transforms: the transforms.
        p: how often each is picked, all as often if not given.
    """

    def __init__(
        self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None
    ) -> None:
        super().__init__(transforms)
        shares = [1.0] * len(transforms) if p is None else list(p)
        if len(shares) != len(transforms):
            raise ValueError(
                f"Length of p doesn't match the number of transforms: "
                f"{len(shares)} != {len(transforms)}"
            )
        self.p = [share / sum(shares) for share in shares]

    def forward(self, *inputs: Any) -> Any:
        at, number = float(rand(1).item()), 0
        while number + 1 < len(self.p) and at >= sum(self.p[: number + 1]):
            number += 1
        return self.through([self.transforms[number]], inputs)


class RandomOrder(_OfTransforms):
    """Transforms in a random order."""

    def forward(self, *inputs: Any) -> Any:
        order = randperm(len(self.transforms)).tolist()
        return self.through([self.transforms[i] for i in order], inputs)


class Lambda(Transform):
    """A function of every part of a sample, or of those of given types."""

    _transformed_types = (object,)

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        super().__init__()
        if not callable(lambd):
            raise TypeError(f"Lambda: expected a callable, received {type(lambd).__name__}")
        self.lambd = lambd
        self.types: tuple[type, ...] = types or (object,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.lambd(inpt) if isinstance(inpt, self.types) else inpt

    def extra_repr(self) -> str:
        name = getattr(self.lambd, "__name__", None)
        shown = f"types={[kind.__name__ for kind in self.types]}"
        return f"{name}, {shown}" if name else shown
