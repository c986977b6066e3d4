"""Activations as layers."""

from __future__ import annotations

from typing import Any

from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.dtype import DType
from adjoint.engine.ops.create.creation import empty
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.attention import MultiheadAttention as MultiheadAttention
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.shrinkage import Hardshrink as Hardshrink
from adjoint.nn.modules.shrinkage import Softshrink as Softshrink
from adjoint.nn.modules.shrinkage import Tanhshrink as Tanhshrink
from adjoint.nn.modules.shrinkage import Threshold as Threshold
from adjoint.nn.modules.softmax import LogSoftmax as LogSoftmax
from adjoint.nn.modules.softmax import Softmax as Softmax
from adjoint.nn.modules.softmax import Softmax2d as Softmax2d
from adjoint.nn.modules.softmax import Softmin as Softmin
from adjoint.nn.parameter import Parameter


def _flag(inplace: bool, lead: str = "") -> str:
    return f"{lead}inplace=True" if inplace else ""


class ReLU(Module):
    r"""$\max(0, x)$.

    Args:
        inplace: write the result into the input.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReLU()(ad.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return _flag(self.inplace)


class LeakyReLU(Module):
    r"""x where positive, `negative_slope` times x elsewhere.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LeakyReLU(0.1)(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.1000,  0.0000,  2.0000])
    """

    __constants__ = ["negative_slope", "inplace"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + _flag(self.inplace, ", ")


class ELU(Module):
    r"""x where positive, $\alpha (e^x - 1)$ elsewhere.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ELU()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.6321,  0.0000,  2.0000])
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + _flag(self.inplace, ", ")


class CELU(Module):
    r"""x where positive, $\alpha (e^{x / \alpha} - 1)$ elsewhere.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.CELU(alpha=2.0)(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.7869,  0.0000,  2.0000])
    """

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + _flag(self.inplace, ", ")


class SELU(Module):
    r"""`ELU` scaled to keep mean zero and variance one through layers.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.SELU()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-1.1113,  0.0000,  2.1014])
    """

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        return _flag(self.inplace)


class GELU(Module):
    r"""$x \Phi(x)$, the standard normal probability of being below x times x.

    Args:
        approximate: "none", or "tanh".

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.GELU()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.1587,  0.0000,  1.9545])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    r"""$x \sigma(x)$.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.SiLU()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2689,  0.0000,  1.7616])
    """

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return _flag(self.inplace)


class Mish(Module):
    r"""$x \tanh(\log(1 + e^x))$.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Mish()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.3034,  0.0000,  1.9440])
    """

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return _flag(self.inplace)


class Softplus(Module):
    r"""$\log(1 + e^{\beta x}) / \beta$, and x where $\beta x$ exceeds `threshold`.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Softplus()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([0.3133, 0.6931, 2.1269])
    """

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Module):
    r"""$\log \sigma(x)$.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.LogSigmoid()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-1.3133, -0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Sigmoid(Module):
    r"""$1 / (1 + e^{-x})$.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Sigmoid()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([0.2689, 0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    r"""Hyperbolic tangent.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Tanh()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.7616,  0.0000,  0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Hardsigmoid(Module):
    r"""$x / 6 + 1/2$, limited to [0, 1].

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Hardsigmoid()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([0.3333, 0.5000, 0.8333])
    """

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    r"""x times hardsigmoid(x).

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Hardswish()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.3333,  0.0000,  1.6667])
    """

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Softsign(Module):
    r"""$x / (1 + |x|)$.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Softsign()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.5000,  0.0000,  0.6667])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class RReLU(Module):
    r"""x where positive, x times a slope elsewhere: random in training, else the mean slope.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.RReLU().eval()(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.2292,  0.0000,  2.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + _flag(self.inplace, ", ")


class GLU(Module):
    r"""One half of the input along `dim` times the sigmoid of the other.

    Shape:
        (..., 2N, ...) -> (..., N, ...), halved along `dim`.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.GLU()(ad.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Hardtanh(Module):
    """Elements limited to [min_val, max_val].

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.Hardtanh(-0.5, 0.5)(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.5000,  0.0000,  0.5000])
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        # PyTorch's older spellings of the bounds
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"Hardtanh: max_val must be larger than min_val, received {self.max_val} and "
                f"{self.min_val}"
            )

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + _flag(self.inplace, ", ")


class ReLU6(Hardtanh):
    r"""$\min(\max(0, x), 6)$.

    Shape:
        any shape -> the same shape.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.ReLU6()(ad.tensor([-1.0, 3.0, 8.0]))
        tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _flag(self.inplace)


class PReLU(Module):
    """x where positive, a learned slope times x elsewhere.

    Args:
        num_parameters: 1, or one slope per channel (dimension 1).
        init: what the slopes start at.

    Shape:
        any shape -> the same shape; with several slopes the second dimension is theirs.

    Example:
        >>> import adjoint as ad
        >>> ad.nn.PReLU(init=0.1)(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([-0.1000,  0.0000,  2.0000], grad_fn=<PreluBackward0>)
    """

    __constants__ = ["num_parameters"]

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to `init`."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
