"""Eigenvalues and singular values by Jacobi's rotations.

Each is a loop of the program that works on all matrices of a batch at once. The columns that an
eigenvalue or a singular value stands with may have the other sign than LAPACK's; both are right.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.state.context import concrete
from adjoint.engine.graph.forms.table import Unwritten, form_of, refuse_complex
from adjoint.engine.ops.linalg.qr import QR
from adjoint.engine.tensor.tensor import Tensor

SWEEPS = 12  # each squares what is off the diagonal once that is small
MOST = 96  # columns that a loop of rotations is worth it for


def _checked(x: Tensor) -> tuple[int, int]:
    refuse_complex(x)
    m, n = int(x.shape[-2]), int(x.shape[-1])
    if not m or not n or min(m, n) > MOST:
        raise Unwritten(f"of more than {MOST} columns")
    return m, n


@lru_cache(maxsize=16)
def _rounds(n: int) -> Any:
    """Pairs of a tournament: n - 1 rounds in each of which everyone meets someone."""
    players = list(range(n))
    rounds = []
    for _ in range(n - 1):
        pairs = [(players[k], players[n - 1 - k]) for k in range(n // 2)]
        rounds.append([sorted(pair) for pair in pairs])
        players = [players[0], players[-1], *players[1:-1]]
    return np.array(rounds)  # (n - 1, n / 2, 2)


def _rotations(n: int) -> tuple[Tensor, Tensor]:
    """The rows and the columns of each round's pairs."""
    with concrete():
        table = ad.tensor(_rounds(n))
        return table[..., 0].contiguous(), table[..., 1].contiguous()


def _turned(n: int, p: Tensor, q: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """The orthogonal matrix of rotations of disjoint pairs."""
    places = ad.arange(n)
    is_p = (p.unsqueeze(-1) == places).to(cosine.dtype)  # (pairs, n)
    is_q = (q.unsqueeze(-1) == places).to(cosine.dtype)
    weighted = cosine.unsqueeze(-1)
    diagonal = (weighted * (is_p + is_q)).sum(-2).diag_embed()
    above = (is_p * sine.unsqueeze(-1)).mT @ is_q
    return diagonal + above - above.mT


def _tangent(app: Tensor, aqq: Tensor, apq: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the smaller angle that makes a symmetric pair diagonal."""
    none = apq == 0
    theta = (aqq - app) / (2 * ad.where(none, 1, apq))
    t = ad.where(theta < 0, -1.0, 1.0) / (theta.abs() + (1 + theta * theta).sqrt())
    t = ad.where(none, 0, t)
    cosine = 1 / (1 + t * t).sqrt()
    return cosine, t * cosine


def _even(x: Tensor, columns_only: bool) -> Tensor:
    """With one more column (and row) of zeros where their number is odd."""
    if int(x.shape[-1]) % 2 == 0:
        return x
    x = ad.cat([x, x.new_zeros((*x.shape[:-1], 1))], -1)
    return x if columns_only else ad.cat([x, x.new_zeros((*x.shape[:-2], 1, x.shape[-1]))], -2)


def _identity(n: int, like: Tensor) -> Tensor:
    k = ad.arange(n)
    return (k.unsqueeze(1) == k).to(like.dtype).expand(*like.shape[:-2], n, n).contiguous()


@form_of("eigh")
def eigh(x: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    """Rotations until nothing is off the diagonal."""
    _, n = _checked(x)
    half = x.triu() if upper else x.tril()
    whole = half + half.mT - x.diagonal(dim1=-2, dim2=-1).diag_embed()
    if n == 1:
        return whole.squeeze(-1), ad.ones_like(x)
    a = _even(whole, False)
    size = int(a.shape[-1])
    first, second = _rotations(size)

    def turn(k: Tensor, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        at = (k % (size - 1)).reshape(1)
        p, q = first.index_select(0, at).squeeze(0), second.index_select(0, at).squeeze(0)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        beside = a.index_select(-2, p).gather(-1, q.unsqueeze(-1).expand(*a.shape[:-2], -1, 1))
        angle = _tangent(diagonal[..., p], diagonal[..., q], beside.squeeze(-1))
        turned = _turned(size, p, q, *angle)
        return k + 1, turned.mT @ a @ turned, v @ turned

    steps = SWEEPS * (size - 1)
    start = (ad.tensor(0), a, _identity(size, a))
    _, a, v = ad.while_loop(lambda k, a, v: k < steps, turn, start)
    values = a.diagonal(dim1=-2, dim2=-1)[..., :n]
    values, order = values.sort(-1)
    vectors = v[..., :n, :n].gather(-1, order.unsqueeze(-2).expand(*x.shape[:-2], n, n))
    return values, vectors


@form_of("eigvalsh")
def eigvalsh(x: Tensor, upper: bool) -> Tensor:
    """By the same rotations."""
    return eigh(x, upper)[0]


@form_of("svdvals")
def svdvals(x: Tensor) -> Tensor:
    """By rotations too."""
    return svd(x, False)[1]


@form_of("svd")
def svd(x: Tensor, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Columns rotated until they are orthogonal: their lengths are the singular values."""
    m, n = _checked(x)
    if m < n:
        u, s, vh = svd(x.mT, full_matrices)
        return vh.mT, s, u.mT
    a = _even(x, True)
    size = int(a.shape[-1])
    first, second = _rotations(size)

    def turn(k: Tensor, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        at = (k % (size - 1)).reshape(1)
        p, q = first.index_select(0, at).squeeze(0), second.index_select(0, at).squeeze(0)
        one, other = a.index_select(-1, p), a.index_select(-1, q)
        angle = _tangent((one * one).sum(-2), (other * other).sum(-2), (one * other).sum(-2))
        turned = _turned(size, p, q, *angle)
        return k + 1, a @ turned, v @ turned

    steps = SWEEPS * (size - 1)
    start = (ad.tensor(0), a.contiguous(), _identity(size, a))
    _, a, v = ad.while_loop(lambda k, a, v: k < steps, turn, start)
    order = a[..., :n].norm(dim=-2).argsort(-1, descending=True)

    def in_order(y: Tensor) -> Tensor:
        return y.gather(-1, order.unsqueeze(-2).expand(*y.shape[:-1], n))

    # Reflections make columns of a length of zero orthogonal to the others, too.
    u, r = QR(in_order(a[..., :n]), mode="complete" if full_matrices else "reduced")
    lengths = r[..., :n, :].diagonal(dim1=-2, dim2=-1)
    signs = ad.where(lengths < 0, -1.0, 1.0)
    if m > n and full_matrices:
        signs = ad.cat([signs, ad.ones_like(u[..., 0, n:])], -1)
    return u * signs.unsqueeze(-2), lengths.abs(), in_order(v[..., :n, :n]).mT


@form_of("pinv")
def pinv(x: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    """By singular values; of those that count as zero, nothing."""
    u, s, vh = svd(x, False)
    atol, rtol = (t.unsqueeze(-1) if isinstance(t, Tensor) else t for t in (atol, rtol))
    limit = ad.maximum(s[..., :1] * rtol, ad.zeros_like(s[..., :1]) + atol)
    large = s > limit
    inverse = ad.where(large, 1 / ad.where(large, s, 1.0), 0.0)
    return (vh.mT * inverse.unsqueeze(-2)) @ u.mT
