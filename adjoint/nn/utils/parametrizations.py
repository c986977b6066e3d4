"""Ready-made parametrisations: orthogonal matrices, weight norm, spectral norm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from adjoint.engine import assembly
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.core.errors import DTypeValueError, ShapeIndexError, ShapeValueError
from adjoint.engine.core.numeric_limits import finfo
from adjoint.engine.ops.create.ranges import eye
from adjoint.engine.ops.random.random import randn
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn.modules.module import Module
from adjoint.nn.utils.parametrize import register_parametrization
from adjoint.nn.utils.spectral_norm import as_matrix, normalize, output_dim
from adjoint.nn.utils.weight_norm import norm_except_dim, normalised

linalg: Any = SimpleNamespace(**assembly.namespace("linalg"))
MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.size(-2), q.size(-1)
    eps = 10.0 * n * finfo(q.dtype).eps
    identity = eye(k, dtype=q.dtype, device=q.device)
    return bool(((q.mH @ q) - identity).abs().le(eps + 1e-5 * identity.abs()).all())


def _make_orthogonal(a: Tensor) -> Tensor:
    """The Q of a tall matrix's QR whose R has a positive diagonal."""
    q, r = linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Maps a matrix to an orthogonal one, by one of three maps."""

    base: Any

    def __init__(
        self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise DTypeValueError(
                "The householder parametrization does not support complex tensors."
            )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.size(-2) < x.size(-1)
        if wide:
            x = x.mT
        q = self._reflect(x) if self.orthogonal_map == "householder" else self._rotate(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _rotate(self, x: Tensor) -> Tensor:
        """Through the skew-symmetric matrix of the lower triangle."""
        n, k = x.size(-2), x.size(-1)
        x = x.tril()
        if n != k:
            x = cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], dim=-1)
        a = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(a)
        else:
            identity = eye(n, dtype=a.dtype, device=a.device)
            q = linalg.solve(identity - 0.5 * a, identity + 0.5 * a)
        return q[..., :k] if n != k else q

    def _reflect(self, x: Tensor) -> Tensor:
        """Through the reflections whose vectors are the columns below the diagonal."""
        a = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
        q = linalg.householder_product(a, tau)
        # The diagonal holds the signs of R's, which are constants.
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def right_inverse(self, q: Tensor) -> Tensor:
        """The matrix this map sends to (the nearest it keeps of) q."""
        if q.shape != self.shape:
            raise ShapeValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        with no_grad():
            wide = q.size(-2) < q.size(-1)
            tall = q.mT if wide else q
            if hasattr(self, "base"):
                self.base = self._complete(tall)
                start = q.new_zeros(q.shape)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
                return start
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            a, tau = tall.geqrf()
            signs = a.diagonal(dim1=-2, dim2=-1)
            signs.copy_(signs.sign() * (1 - 2 * (tau == 0.0).to(a.dtype)))
            return a.mT if wide else a

    def _complete(self, q: Tensor) -> Tensor:
        """A square orthogonal matrix that begins with q's columns, made orthogonal if need be."""
        n, k = q.size(-2), q.size(-1)
        if n == k:
            return q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        rest = randn(*q.size()[:-2], n, n - k, dtype=q.dtype, device=q.device)
        return _make_orthogonal(cat([q, rest], dim=-1))


def _weight(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Keep a matrix, or each of a batch, orthogonal (unitary, if complex).

    Args:
        module: the module the matrix is of.
        name: the matrix.
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for square
            and complex ones, else the last.
        use_trivialization: whether to work relative to a base matrix, the initial value.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.utils.parametrizations.orthogonal(ad.nn.Linear(3, 5))
        >>> bool(ad.allclose(layer.weight.T @ layer.weight, ad.eye(3), atol=1e-5))
        True
    """
    weight = _weight(module, name)
    if weight.ndim < 2:
        raise ShapeValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)


class _WeightNorm(Module):
    """A weight as a magnitude times a direction."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normalised(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Magnitude and direction of a weight."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    r"""Write a parameter as $w = g \, v / \lVert v \rVert$, with magnitude and direction trained.

    Args:
        module: the module the parameter is of.
        name: the parameter.
        dim: the dimension whose slices have a magnitude each; None for one in all.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.utils.parametrizations.weight_norm(ad.nn.Linear(20, 40))
        >>> layer.parametrizations.weight.original0.shape
        adjoint.Size([40, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_old_names(state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_old_names)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, refined at each use in training."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise ShapeIndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but "
                f"got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got n_power_iterations="
                f"{n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = as_matrix(weight, self.dim)
                for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                    drawn = matrix.new_empty(size).normal_(0, 1)
                    self.register_buffer(name, normalize(drawn, eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, count: int) -> None:
        with no_grad():
            for _ in range(count):
                self._u.copy_(normalize(matrix @ self._v, self.eps))
                self._v.copy_(normalize(matrix.mH @ self._u, self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next use writes to the buffers
        return weight / u.vdot(matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        """Taken as it is."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    r"""Divide a parameter by its largest singular value: $W / \sigma(W)$.

    Args:
        module: the module the parameter is of.
        name: the parameter.
        n_power_iterations: how often each use in training refines the estimate.
        eps: the least length to divide a vector by.
        dim: the dimension of outputs; 0, or 1 in transposed convolutions, by default.

    Example:
        >>> import adjoint as ad
        >>> layer = ad.nn.utils.parametrizations.spectral_norm(ad.nn.Linear(4, 3))
        >>> layer.weight.shape
        adjoint.Size([3, 4])
    """
    weight = _weight(module, name)
    where = output_dim(module) if dim is None else dim
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, where, eps)
    )
