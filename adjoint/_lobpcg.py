"""A few eigenpairs of large symmetric matrices: `torch.lobpcg`.

The locally optimal block preconditioned conjugate gradient method (A. V. Knyazev, SIAM J. Sci.
Comput. 23, 2001): in each step the best approximations in the span of the present ones, of their
residuals and of the last step's directions. Bases are made orthonormal by the singular value
decomposition of their Gram matrix (A. Stathopoulos and K. Wu, SIAM J. Sci. Comput. 23, 2002).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint.autograd import Function
from adjoint.engine.tensor.tensor import Tensor

linalg: Any = ad.linalg
EPSILON = {ad.float32: 1.2e-7, ad.float64: 2.23e-16, ad.complex64: 1.2e-7, ad.complex128: 2.23e-16}
Tracker = Callable[["LOBPCG"], Any]


def _times(matrix: Tensor | None, x: Tensor) -> Tensor:
    """The product with a matrix, which may be sparse; None is the identity."""
    return x if matrix is None else matrix @ x


class LOBPCG:
    """The state of an iteration, as a `tracker` sees it.

    Attributes:
        A, B, iK: the operands; None is the identity.
        E, X: approximate eigenvalues and, as columns, eigenvectors.
        R: the residuals A X - B X diag(E).
        S: the basis in which the next approximations are sought.
        iparams, fparams, bparams: whole numbers, numbers and truth values it was asked with.
        ivars, fvars, bvars, tvars: whole numbers, numbers, truth values and tensors of the
            iteration; `bvars["force_stop"] = True` ends it.
    """

    def __init__(
        self,
        A: Tensor,
        B: Tensor | None,
        X: Tensor,
        iK: Tensor | None,
        iparams: dict[str, int],
        fparams: dict[str, float],
        bparams: dict[str, bool],
        method: str,
        tracker: Tracker | None,
    ) -> None:
        self.A, self.B, self.iK, self.X = A, B, iK, X
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.method, self.tracker = method, tracker
        self.ivars: dict[str, int] = {
            "istep": 0,
            "iterations_left": iparams["niter"],
            "converged_count": 0,
            "converged_end": 0,
        }
        self.fvars: dict[str, float] = {}
        self.bvars: dict[str, bool] = {"force_stop": False}
        self.tvars: dict[str, Tensor] = {}
        self.E = X.new_zeros((X.shape[-1],)).abs()
        self.R = ad.zeros_like(X)
        self.S = X

    def run(self) -> None:
        """Iterate to convergence, or until somebody says stop."""
        self.update()
        self._tell()
        while not self.stop_iteration():
            self.update()
            self._tell()

    def _tell(self) -> None:
        if self.tracker is not None:
            self.tracker(self)

    def stop_iteration(self) -> bool:
        """Whether enough is found, or no step is left."""
        return (
            self.bvars.get("force_stop", False)
            or self.ivars["iterations_left"] == 0
            or self.ivars["converged_count"] >= self.iparams["k"]
        )

    def update(self) -> None:
        """One step: the best approximations in the basis, their residuals and the next basis."""
        first = self.ivars["istep"] == 0
        if first:
            self._measure()
            self.S = self._start() if self.method == "ortho" else self.X
        count = self.X.shape[-1]
        self.E, Z = self._best(self.S, count)
        directions = None if first else self.S[:, count:] @ Z[count:]
        self.X = self.S @ Z
        self.R = self.A @ self.X - _times(self.B, self.X) * self.E.to(self.X.dtype)
        converged = self.update_converged_count()
        self.S = self._basis(converged, directions)
        self.ivars["converged_end"] = self.S.shape[-1]
        self.ivars["istep"] += 1
        self.ivars["iterations_left"] -= 1

    def _start(self) -> Tensor:
        """An orthonormal basis of X's columns, with random ones for those that depend on others."""
        S = self._orthonormal(self.X, None)
        missing = self.X.shape[-1] - S.shape[-1]
        if not missing:
            return S
        added = ad.randn((len(self.X), missing), dtype=self.X.dtype, device=self.X.device)
        return ad.cat([S, self._orthonormal(added, S)], -1)

    def _measure(self) -> None:
        """How large the operands are, for what is a small residual."""
        size = linalg.norm(self.X)
        self.fvars["X_norm"] = float(size)
        self.fvars["A_norm"] = float(linalg.norm(self.A @ self.X) / size)
        self.fvars["B_norm"] = float(linalg.norm(_times(self.B, self.X)) / size)

    def update_converged_count(self) -> int:
        """How many leading pairs have small residuals; later ones wait for those before them."""
        scale = self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"]
        lengths = linalg.vector_norm(self.X, dim=0)
        relative = linalg.vector_norm(self.R, dim=0) / (lengths * scale)
        self.tvars["rerr"] = relative
        small = (relative < self.fparams["tol"]).tolist()
        self.ivars["converged_count"] = [*small, False].index(False)
        return self.ivars["converged_count"]

    def _best(self, S: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The best `count` pairs in the span of S (Rayleigh and Ritz), as coefficients of S."""
        inner = S.mH @ (self.A @ S)
        inner = (inner + inner.mH) / 2
        if self.method == "ortho":
            E, Z = linalg.eigh(inner)
        else:  # S is no orthonormal basis: G = L L^H, and L^-1 inner L^-H has the eigenvalues
            L = linalg.cholesky(S.mH @ _times(self.B, S))
            left = linalg.solve_triangular(L, inner, upper=False)
            right = linalg.solve_triangular(L, left.mH, upper=False)
            E, Z = linalg.eigh((right + right.mH) / 2)
            Z = linalg.solve_triangular(L.mH, Z, upper=True)
        if self.bparams["largest"]:
            E, Z = E.flip(-1), Z.flip(-1)
        return E[:count], Z[:, :count].contiguous()

    def _basis(self, converged: int, directions: Tensor | None) -> Tensor:
        """The approximations, what the last step added to them, and residuals not yet small."""
        added = _times(self.iK, self.R[:, converged:])
        if directions is not None:
            added = ad.cat([directions[:, converged:], added], -1)
        if self.method == "ortho":
            added = self._orthonormal(added, self.X)
        else:  # of one length, for a Gram matrix that is not far from singular by its scale
            lengths = linalg.vector_norm(added, dim=0)
            added = (added / lengths.masked_fill(lengths == 0, 1))[:, lengths > 0]
        return ad.cat([self.X, added], -1)

    def _orthonormal(self, U: Tensor, V: Tensor | None) -> Tensor:
        """A basis of U's part orthogonal to the orthonormal V, itself orthonormal by B.

        Directions that rounding cannot tell from nothing are left out.
        """
        drop = self.bparams.get("ortho_use_drop", False)
        tolerance = self.fparams["ortho_tol_drop" if drop else "ortho_tol_replace"]
        for _ in range(max(self.iparams["ortho_i_max"], 1)):
            if V is not None:
                U = U - V @ (V.mH @ _times(self.B, U))
            for _ in range(max(self.iparams["ortho_j_max"], 1)):
                U = self._whitened(U, tolerance**2, drop)
                if self._error(U) < self.fparams["ortho_tol"]:
                    break
            if V is None or not U.shape[-1]:
                break
            across = V.mH @ _times(self.B, U)
            if float(across.abs().amax()) < self.fparams["ortho_tol"]:
                break
        if U.shape[-1] and self._error(U) >= self.fparams["ortho_tol"]:
            U = self._whitened(U, self.fparams["ortho_tol"], True)
        return U

    def _error(self, U: Tensor) -> float:
        """How far the columns of U are from orthonormal."""
        if not U.shape[-1]:
            return 0.0
        gram = U.mH @ _times(self.B, U)
        return float((gram - ad.eye(U.shape[-1], dtype=U.dtype, device=U.device)).abs().amax())

    def _whitened(self, U: Tensor, tolerance: float, drop: bool) -> Tensor:
        """U times the inverse root of its Gram matrix: eigenvalues below `tolerance` times the
        largest are raised to it, or their directions dropped.
        """
        if not U.shape[-1]:
            return U
        gram = U.mH @ _times(self.B, U)
        squares = gram.diagonal().real if gram.dtype.is_complex else gram.diagonal()
        U, squares = U[:, squares > 0], squares[squares > 0]
        if not U.shape[-1]:
            return U
        scale = squares.rsqrt()
        gram = (U * scale).mH @ _times(self.B, U * scale)
        values, vectors = linalg.eigh((gram + gram.mH) / 2)
        least = tolerance * values[-1]
        if drop:
            kept = values > least
            values, vectors = values[kept], vectors[:, kept]
        return (U * scale) @ (vectors * values.clamp(min=least).rsqrt())


class _Differentiable(Function):
    """The iteration with a gradient: of symmetric, real and dense A, B being the identity."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor | None, options: dict[str, Any]) -> Any:
        E, X = _solve(A, B, **options)
        ctx.save_for_backward(A, E, X)
        ctx.generalised = B is not None
        return E, X

    @staticmethod
    def backward(ctx: Any, gE: Tensor, gX: Tensor) -> Any:
        A, E, X = ctx.saved_tensors
        if A.dtype.is_complex:
            raise ValueError(
                "lobpcg.backward does not support complex input yet. Note that lobpcg.forward does."
            )
        if ctx.generalised:
            raise ValueError("lobpcg.backward does not support backward with B != I yet.")
        return _gradient(A, E, X, gE, gX), None, None


def _gradient(A: Tensor, E: Tensor, X: Tensor, gE: Tensor, gX: Tensor) -> Tensor:
    """What A contributes: within the span of X as for `eigh`, beyond it by linear equations.

    The change of an eigenvector x beyond the span is Q (Q^T (e - A) Q)^-1 Q^T dA x, for any basis Q
    of what is orthogonal to X.
    """
    k, m = X.shape[-1], X.shape[-2]
    gaps = E.unsqueeze(-2) - E.unsqueeze(-1)
    same = ad.eye(k, dtype=ad.bool, device=E.device)
    inverse = (1 / gaps.masked_fill(same, 1)).masked_fill(same, 0)
    inside = gE.diag_embed() + (X.mT @ gX) * inverse
    result: Tensor = X @ inside @ X.mT
    if k == m:
        return result
    with ad.no_grad():
        Q0 = linalg.qr(X, mode="complete")[0][..., k:]
    Q = Q0 - X @ (X.mT @ Q0)  # Q0 itself, but it turns with X where second derivatives are asked
    operators = E[..., None, None] * (Q.mT @ Q).unsqueeze(-3) - (Q.mT @ A @ Q).unsqueeze(-3)
    wanted = (Q.mT @ gX).mT.unsqueeze(-1)  # (..., k, m - k, 1)
    beyond = linalg.solve(operators, wanted).squeeze(-1)  # (..., k, m - k)
    return result + Q @ beyond.mT @ X.mT


def _options(options: dict[str, Any], k: int, n: int, m: int, tol: float) -> tuple[Any, Any, Any]:
    """The numbers the iteration is told of, by kind; those of bases where it makes some."""
    niter, largest = options["niter"], options["largest"]
    iparams = {"m": m, "n": n, "k": k, "niter": 1000 if niter is None else niter}
    fparams = {"tol": tol}
    bparams = {"largest": True if largest is None else largest}
    if options["method"] == "ortho":
        iparams |= {"ortho_i_max": 3, "ortho_j_max": 3} | (options["ortho_iparams"] or {})
        names = ("ortho_tol", "ortho_tol_drop", "ortho_tol_replace")
        fparams |= dict.fromkeys(names, tol) | (options["ortho_fparams"] or {})
        bparams |= {"ortho_use_drop": False} | (options["ortho_bparams"] or {})
    return iparams, fparams, bparams


def _solve(A: Tensor, B: Tensor | None, **options: Any) -> tuple[Tensor, Tensor]:
    """The eigenpairs of each matrix of A."""
    X, k, n, tol = options["X"], options["k"], options["n"], options["tol"]
    dtype = A.dtype if A.dtype.is_inexact else ad.float32
    if dtype not in EPSILON:
        raise NotImplementedError(
            f"lobpcg: Low precision dtypes not supported. Got {dtype.name}. Convert to float32."
        )
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    iparams, fparams, bparams = _options(
        options, k, n, m, EPSILON[dtype] ** 0.5 if tol is None else tol
    )
    A = A if A.dtype == dtype else A.to(dtype)

    def one(A: Tensor, B: Tensor | None, X: Tensor | None, iK: Tensor | None) -> LOBPCG:
        start = ad.randn((m, n), dtype=dtype, device=A.device) if X is None else X
        if tuple(start.shape) != (m, n):
            raise AssertionError(
                f"lobpcg: X shape mismatch: got {tuple(start.shape)}, expected {(m, n)}"
            )
        asked = (options["method"], options["tracker"])
        worker = LOBPCG(A, B, start.to(dtype), iK, iparams, fparams, bparams, *asked)
        worker.run()
        return worker

    if A.ndim == 2:
        found = one(A, B, X, options["iK"])
        return found.E[:k], found.X[:, :k]
    return _each(A, B, X, options["iK"], one, iparams)


def _each(A: Tensor, B: Any, X: Any, iK: Any, one: Any, iparams: Any) -> tuple[Tensor, Tensor]:
    """Every matrix of a batch in its turn: each takes as many steps as it needs."""
    batch = tuple(A.shape[:-2])

    def flat(x: Any) -> list[Any]:
        count = A.numel() // max(A.shape[-1] ** 2, 1)
        if x is None or x.ndim == 2:
            return [x] * count
        return list(x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]))

    E, vectors = [], []
    for i, operands in enumerate(zip(flat(A), flat(B), flat(X), flat(iK), strict=True)):
        iparams["batch_index"] = i
        worker = one(*operands)
        E.append(worker.E[: iparams["k"]])
        vectors.append(worker.X[:, : iparams["k"]])
    shape = (*batch, A.shape[-1], iparams["k"])
    if not E:
        return A.new_empty((*batch, iparams["k"])).abs(), A.new_empty(shape)
    return ad.stack(E).reshape(*batch, iparams["k"]), ad.stack(vectors).reshape(shape)


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Tracker | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The k largest or smallest eigenvalues, with eigenvectors, of A x = e B x, by products alone.

    Gradients are of dense and real A without B, taken of its symmetric part.

    Args:
        A: symmetric (or Hermitian), (*, m, m); one matrix may be sparse.
        k: how many pairs; by default as many as X has columns, or 1.
        B: symmetric positive definite, of A's shape; None is the identity.
        X: the approximations to start with, (*, m, n); by default random ones.
        n: how many columns random ones have, at most m / 3; k by default.
        iK: a preconditioner, (m, m) or (*, m, m): about the inverse of A.
        niter: the most steps, 1000 by default, -1 for as many as it takes.
        tol: of relative residuals; by default the root of the dtype's precision.
        largest: whether the largest eigenvalues are wanted (the default) or the smallest.
        method: "ortho", of orthonormal bases, or "basic", quicker and less robust.
        tracker: called after each step with the `LOBPCG`, whose state it may read.
        ortho_iparams, ortho_fparams, ortho_bparams: limits and tolerances of the bases.

    Example:
        >>> import adjoint as ad
        >>> A = ad.diag(ad.arange(1.0, 10.0))
        >>> E, X = ad.lobpcg(A, k=2)
        >>> E
        tensor([9.0000, 8.0000])
    """
    if A.ndim < 2 or A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"lobpcg: A must be square, got shape {tuple(A.shape)}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(
            f"lobpcg: A and B must have same shape, got {tuple(A.shape)} vs {tuple(B.shape)}"
        )
    method = "ortho" if method is None else method
    if method not in ("ortho", "basic"):
        raise ValueError(f"lobpcg: method must be 'ortho' or 'basic', received {method!r}")
    options = {
        "k": k,
        "X": X,
        "n": n,
        "iK": iK,
        "niter": niter,
        "tol": tol,
        "largest": largest,
        "method": method,
        "tracker": tracker,
        "ortho_iparams": ortho_iparams,
        "ortho_fparams": ortho_fparams,
        "ortho_bparams": ortho_bparams,
    }
    if ad.is_grad_enabled() and (A.requires_grad or (B is not None and B.requires_grad)):
        if A.layout != ad.strided or (B is not None and B.layout != ad.strided):
            raise ValueError(
                "lobpcg.backward does not support sparse input yet. Note that lobpcg.forward does."
            )
        return _Differentiable.apply((A + A.mT) / 2, B, options)
    with ad.no_grad():
        return _solve(A, B, **options)
