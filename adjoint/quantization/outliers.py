"""Features that stand out, multiplied in floats beside the rest.

One number many times as large as its row's others sets the step by which all of them are rounded:
transformers have such weights, and such inputs at a few features (LLM.int8(), Dettmers et al.,
2022). Columns of weights that stand out are kept in floats; features of inputs are found in each
call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import adjoint as ad
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F

FAR = 15.0  # of a weight, in mean sizes of its row's
SHARE = 128  # one feature of so many is multiplied apart, at most


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a matrix (out, in) that are kept in floats."""

    features: Tensor  # (count,) of int64: which they are
    weight: Tensor  # (out, count)

    def product(self, x: Tensor) -> Tensor:
        """Their share of a product with inputs (..., in)."""
        return F.linear(x.index_select(-1, self.features), self.weight.to(x.dtype))

    def check(self, out_features: int, in_features: int) -> None:
        """Refuse what are no columns of such a matrix."""
        count = self.features.numel()
        wanted = (out_features, count)
        if self.features.ndim != 1 or tuple(self.weight.shape) != wanted:
            raise ValueError(
                f"columns: expected features (count,) and a weight {wanted}, received "
                f"{tuple(self.features.shape)} and {tuple(self.weight.shape)}"
            )
        if count and not (
            0 <= int(self.features.amin()) <= int(self.features.amax()) < in_features
        ):
            raise ValueError(f"columns: features must be below {in_features}")


def most_apart(features: int) -> int:
    """How many of so many features are multiplied apart, at most."""
    return max(1, features // SHARE)


@no_grad()
def split_columns(weight: Tensor) -> tuple[Tensor, Columns | None]:
    """A matrix (out, in) with zeros at the columns that stand out, and those columns.

    >>> weight = ad.ones(256, 256)
    >>> weight[3, 5] = 400.0
    >>> rest, columns = split_columns(weight)
    >>> columns.features, rest.amax()
    (tensor([5]), tensor(1.))
    """
    real = weight.detach().to(ad.float32)
    typical = real.abs().mean(-1, True).clamp(min=1e-30)
    far = (real.abs() / typical).amax(0)
    picked = far.topk(min(most_apart(real.shape[1]), real.shape[1]))
    features = picked.indices[picked.values > FAR].sort().values
    if features.numel() == 0:
        return weight, None
    columns = Columns(features, real.index_select(1, features))
    return real.index_fill(1, features, 0.0), columns


def standing_out(x: Tensor, count: int) -> Tensor:
    """The features of inputs (..., in) with the numbers largest beside their rows, so many.

    A row that is not of finite numbers has no say: it would take the place of others' features.

    >>> standing_out(ad.tensor([[1.0, 9.0, 1.0, -1.0], [0.1, 0.1, 0.1, 0.2]]), 1)
    tensor([1])
    """
    rows = x.reshape((-1, x.shape[-1])).abs()
    beside = 1 / rows.mean(-1, True).clamp(min=1e-30)
    sizes = rows * beside
    return ad.where(sizes < math.inf, sizes, 0.0).amax(0).topk(count).indices


def without(x: Tensor, features: Tensor) -> Tensor:
    """Inputs (..., in) with zeros at some features.

    >>> without(ad.ones(1, 4), ad.tensor([1, 3]))
    tensor([[1., 0., 1., 0.]])
    """
    places = ad.arange(x.shape[-1], device=x.device).unsqueeze(1)
    return ad.where((places == features).any(-1), 0.0, x)
