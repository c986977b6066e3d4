"""What quantised layers have in common: how they are written to files and made again."""

from __future__ import annotations

from typing import Any, ClassVar

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor

KINDS: dict[str, type[Kept]] = {}


class Kept(nn.Module):
    """A layer that a file describes: its kind, plain values of `options`, and its tensors."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:  # compiled modules are of classes below theirs
            KINDS[cls.kind] = cls

    def options(self) -> dict[str, Any]:
        """What an empty layer of this kind is made with: plain values."""
        raise NotImplementedError

    @classmethod
    def empty(cls, tensors: dict[str, Tensor], **options: Any) -> Kept:
        """The layer of these options, with tensors of these shapes."""
        raise NotImplementedError

    @classmethod
    def in_place_of(cls, layer: nn.Module, tensors: dict[str, Tensor], **options: Any) -> Kept:
        """The layer a file describes, for a model that has this one there in floats."""
        return cls.empty(tensors, **options)


def put_bias(module: nn.Module, bias: Tensor | None) -> None:
    """A bias kept as it was: a parameter, or none."""
    if bias is None or isinstance(bias, nn.Parameter):
        module.register_parameter("bias", bias)
    else:
        module.register_parameter("bias", nn.Parameter(bias))
