"""Where numbers become quantised and floats again, and arithmetic that is observed."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor


class QuantStub(nn.Module):
    """Marks where floats become quantised; until `convert` it only has its output observed."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(nn.Module):
    """Marks where quantised numbers become floats."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantWrapper(nn.Module):
    """A module between the two stubs."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if getattr(module, "qconfig", None):
            self.qconfig = module.qconfig
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        out: Tensor = self.dequant(self.module(self.quant(X)))
        return out


class FloatFunctional(nn.Module):
    """Sums, products and joins as a module, so that their results can be observed.

    Example:
        >>> f = FloatFunctional()
        >>> f.add(ad.ones(2), ad.ones(2))
        tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: nn.Module = nn.Identity()

    def forward(self, x: Any) -> Any:
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation: add, mul, cat, ..."
        )

    def _observed(self, x: Tensor) -> Any:
        return self.activation_post_process(x)

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self._observed(ad.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + a number."""
        return ad.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x y."""
        return self._observed(ad.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x times a number."""
        return ad.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """Tensors joined."""
        return self._observed(ad.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """max(x + y, 0)."""
        return self._observed(ad.relu(ad.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        """x @ y."""
        return self._observed(ad.matmul(x, y))
