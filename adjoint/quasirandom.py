"""Points that fill a cube more evenly than random ones: `torch.quasirandom`."""

from __future__ import annotations

import warnings
from typing import Any

from adjoint.engine.backends.array.interop import tensor
from adjoint.engine.core.dtype import DType, get_default_dtype
from adjoint.engine.tensor.tensor import Tensor


class SobolEngine:
    """A Sobol sequence in the unit cube, from SciPy's direction numbers; PyTorch's points.

    Args:
        dimension: of the cube, at most `MAXDIM`.
        scramble: whether to scramble the sequence at random; numbers then differ from PyTorch's.
        seed: of the scrambling; without it another one each time.

    Example:
        >>> import adjoint as ad
        >>> ad.quasirandom.SobolEngine(3).draw(4)
        tensor([[0.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.5000],
                [0.7500, 0.2500, 0.2500],
                [0.2500, 0.7500, 0.7500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                "Supported range of dimensionality for SobolEngine is "
                f"[1, {self.MAXDIM}], received {dimension}"
            )
        from scipy.stats import qmc  # a second to load, for few programs

        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.num_generated = 0
        self._points: Any = qmc.Sobol(dimension, scramble=scramble, bits=self.MAXBIT, seed=seed)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next `n` points, (n, dimension)."""
        with warnings.catch_warnings():  # PyTorch does not insist on powers of two
            warnings.filterwarnings("ignore", "The balance properties", UserWarning)
            points = self._points.random(n)
        self.num_generated += n
        drawn = tensor(points, dtype=get_default_dtype() if dtype is None else dtype)
        if out is None:
            return drawn
        return out.resize_(drawn.shape).copy_(drawn)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2**m points, which must make a power of two with those drawn before."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. Use SobolEngine.draw() instead."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self._points.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Past the next `n` points."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        said = [f"dimension={self.dimension}"]
        said += ["scramble=True"] if self.scramble else []
        said += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(said)})"
