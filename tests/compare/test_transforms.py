"""Transforms nested in all pairs, side by side with torch.func."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint

torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.compare,
    pytest.mark.filterwarnings("ignore"),  # PyTorch warns about itself
]

Lib = Any


def smooth(lib: Lib, x: Any) -> Any:
    return (x.sin() * x.exp()).sum() + (x * x).cos().sum()


def inplace(lib: Lib, x: Any) -> Any:
    y = x.clone()
    y[0] = x[1] * x[2]
    y[1:] *= x[:2]
    y.mul_(2.0)
    return (y * x).sum() + y[0] * y[-1]


def views(lib: Lib, x: Any) -> Any:
    y = x.clone().reshape(3, 1)
    z = y.expand(3, 2).clone()
    column = z[:, 0]
    column.add_(x * x)
    row = z[1]
    row.mul_(x[0])
    return (z * z).sum()


def joined(lib: Lib, x: Any) -> Any:
    y = lib.cat([x, x * x, x.sin()])
    return (lib.where(y > 0.5, y * y, y) * y.flip(0)).sum()


def products(lib: Lib, x: Any) -> Any:
    m = x.unsqueeze(0) * x.unsqueeze(1)
    return (m @ m.transpose(0, 1) @ x).softmax(0)[0] + (m @ x).sum()


def soft(lib: Lib, x: Any) -> Any:
    return (x.softmax(0) * x).sum() + x.logsumexp(0) + lib.log_softmax(x * x, 0)[1]


def indexed(lib: Lib, x: Any) -> Any:
    i = lib.tensor([2, 0, 0])
    y = x[i] * x
    z = lib.zeros(3, dtype=x.dtype).index_put((i,), y, accumulate=True)
    return (z * z).sum() + x.gather(0, i).prod()


def reduced(lib: Lib, x: Any) -> Any:
    y = x.cumsum(0) / (1 + x * x)
    return y.max() * y.mean() + y.std() + x.prod()


def detached(lib: Lib, x: Any) -> Any:
    with lib.no_grad():
        c = x * x
    return (x - c).pow(2).sum() + (x.detach() * x * x).sum()


FUNCTIONS = [smooth, inplace, views, joined, products, soft, indexed, reduced]
X = [0.3, 0.9, 1.7]
V = [1.0, -0.5, 2.0]
BATCH = [[0.3, 0.9, 1.7], [1.1, -0.4, 0.6]]


def func_of(lib: Lib) -> Any:
    return lib.func


def grad_of_grad(F: Any, f: Any, x: Any, v: Any) -> Any:
    return F.grad(lambda x: (F.grad(f)(x) * v).sum())(x)


def jvp_of_grad(F: Any, f: Any, x: Any, v: Any) -> Any:
    return F.jvp(F.grad(f), (x,), (v,))


def grad_of_jvp(F: Any, f: Any, x: Any, v: Any) -> Any:
    return F.grad(lambda x: F.jvp(f, (x,), (v,))[1])(x)


def jvp_of_jvp(F: Any, f: Any, x: Any, v: Any) -> Any:
    return F.jvp(lambda x: F.jvp(f, (x,), (v,))[1], (x,), (v,))


def vjp_of_vjp(F: Any, f: Any, x: Any, v: Any) -> Any:
    def first(x: Any) -> Any:
        out, pull = F.vjp(f, x)
        return pull(out)[0]

    out, pull = F.vjp(first, x)
    return out, pull(v)[0]


def grad_in_third(F: Any, f: Any, x: Any, v: Any) -> Any:
    g = F.grad(lambda x: (F.grad(lambda x: (F.grad(f)(x) * v).sum())(x) * v).sum())
    return g(x)


CHAINS: list[Callable[..., Any]] = [
    lambda F, f, x, v: F.grad(f)(x),
    lambda F, f, x, v: F.grad_and_value(f)(x),
    grad_of_grad,
    jvp_of_grad,
    grad_of_jvp,
    jvp_of_jvp,
    vjp_of_vjp,
    grad_in_third,
    lambda F, f, x, v: F.hessian(f)(x),
    lambda F, f, x, v: F.jacfwd(F.jacfwd(f))(x),
    lambda F, f, x, v: F.jacrev(F.jacrev(f))(x),
    lambda F, f, x, v: F.jacrev(F.jacfwd(f))(x),
    lambda F, f, x, v: F.linearize(F.grad(f), x)[1](v),
]


def to_numpy(tree: Any) -> Any:
    if isinstance(tree, (tuple, list)):
        return [to_numpy(t) for t in tree]
    return tree.detach().numpy()


def equal(ours: Any, theirs: Any) -> None:
    if isinstance(ours, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            equal(a, b)
        return
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def run(lib: Lib, chain: Any, function: Any, *, batched: bool, closed: bool) -> Any:
    double = {"dtype": lib.float64}
    f: Any = lambda x: function(lib, x)
    v = lib.tensor(V, **double)
    if not batched:
        return to_numpy(chain(lib.func, f, lib.tensor(X, **double), v))
    xs = lib.tensor(BATCH, **double)
    if not closed:
        return to_numpy(lib.func.vmap(lambda x: chain(lib.func, f, x, v))(xs))
    # each of vmap: the function under the transforms maps over a batch itself
    g: Any = lambda x: lib.func.vmap(lambda row: f(row * x))(xs).sum()
    return to_numpy(chain(lib.func, g, lib.tensor(X, **double), v))


@pytest.mark.parametrize("chain", CHAINS, ids=range(len(CHAINS)))
@pytest.mark.parametrize("function", [*FUNCTIONS, detached], ids=lambda f: f.__name__)
def test_nested(function: Any, chain: Any) -> None:
    if chain is CHAINS[-1] and function in (inplace, views):
        pytest.skip("PyTorch's linearize loses writes: it disagrees with its own jvp")
    equal(
        run(adjoint, chain, function, batched=False, closed=False),
        run(torch, chain, function, batched=False, closed=False),
    )


@pytest.mark.parametrize("closed", [False, True], ids=["vmap_outside", "vmap_inside"])
@pytest.mark.parametrize("chain", CHAINS[:-1], ids=range(len(CHAINS) - 1))
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_nested_with_vmap(function: Any, chain: Any, closed: bool) -> None:
    try:
        wanted = run(torch, chain, function, batched=True, closed=closed)
    except RuntimeError as error:
        pytest.skip(f"torch: {error}")
    equal(run(adjoint, chain, function, batched=True, closed=closed), wanted)


def tracked_program(lib: Lib, function: Any) -> Any:
    """Transforms inside a .backward() program, closing over what it tracks."""
    w = lib.tensor(X, dtype=lib.float64, requires_grad=True)
    v = lib.tensor(V, dtype=lib.float64)
    f: Any = lambda x: function(lib, x)
    first = lib.func.grad(lambda x: f(x * w))(v)
    pushed = lib.func.jvp(lambda x: f(x + w), (v,), (w,))[1]
    rows = lib.func.vmap(lambda x: f(x * w))(lib.tensor(BATCH, dtype=lib.float64))
    loss = (first * w).sum() + pushed * w[0] + (rows * rows).sum()
    loss.backward()
    return to_numpy([loss, w.grad])


@pytest.mark.parametrize(
    "function", [smooth, inplace, joined, products, soft], ids=lambda f: f.__name__
)
def test_transforms_inside_backward(function: Any) -> None:
    equal(tracked_program(adjoint, function), tracked_program(torch, function))


def per_sample(lib: Lib) -> Any:
    double = {"dtype": lib.float64}
    w = lib.tensor([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6]], **double)
    xs = lib.tensor(BATCH, **double)
    ys = lib.tensor([1, 0])

    def loss(w: Any, x: Any, y: Any) -> Any:
        return -(x @ w).log_softmax(0).gather(0, y.unsqueeze(0)).sum()

    single = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0, 0))(w, xs, ys)
    chunked = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0, 0), chunk_size=1)(w, xs, ys)
    return to_numpy([single, chunked])


def test_per_sample_gradients() -> None:
    equal(per_sample(adjoint), per_sample(torch))


def no_grad_around(lib: Lib) -> Any:
    x = lib.tensor(X, dtype=lib.float64, requires_grad=True)
    f = lambda x: (x * x).sum()
    with lib.no_grad():
        outside = lib.func.grad(f)(x)
    inside = lib.func.grad(lambda x: detached(lib, x))(x)
    assert not outside.requires_grad
    assert inside.requires_grad
    return to_numpy([outside, inside])


def test_no_grad_around_and_inside() -> None:
    equal(no_grad_around(adjoint), no_grad_around(torch))


VMAPS: list[tuple[Any, dict[str, Any], Any]] = [
    (lambda x, y: x * y, {"in_dims": (0, None)}, ((2, 3), (3,))),
    (lambda x, y: x * y, {"in_dims": (1, 0), "out_dims": 1}, ((3, 2), (2, 3))),
    (lambda x, y: (x * y, x.sum()), {"in_dims": (-1, 0), "out_dims": (1, 0)}, ((3, 2), (2, 3))),
    (lambda x, y: {"a": x, "b": (y, x + y)}, {"out_dims": {"a": 1, "b": (0, 1)}}, ((2, 3), (2, 3))),
    (lambda x, y: x @ y, {"in_dims": (0, None)}, ((2, 3, 4), (4, 5))),
    (lambda x, y: (x["k"] * y).sum(), {"in_dims": ({"k": 0}, 0)}, ("dict", (2, 3), (2, 3))),
    (lambda x, y: x.reshape(-1) + y.t().reshape(-1), {}, ((2, 3, 4), (2, 3, 4))),
    (lambda x, y: (x[0], y[..., 1:], x[:, None].expand(3, 2)), {}, ((2, 3), (2, 3))),
]


@pytest.mark.parametrize("case", range(len(VMAPS)))
def test_vmap_dims(case: int) -> None:
    function, options, shapes = VMAPS[case]
    as_dict = shapes[0] == "dict"
    arrays = [
        np.random.default_rng(i).standard_normal(s)
        for i, s in enumerate(shapes[1:] if as_dict else shapes)
    ]

    def go(lib: Lib) -> Any:
        x, y = (lib.from_numpy(a) for a in arrays)
        out = lib.func.vmap(function, **options)({"k": x} if as_dict else x, y)
        return to_numpy([out["a"], *out["b"]] if isinstance(out, dict) else out)

    equal(go(adjoint), go(torch))


BAD_VMAPS: list[Any] = [
    lambda F, t: F.vmap(lambda x: x, in_dims=2)(t),
    lambda F, t: F.vmap(lambda x: x, in_dims=(0, 0))(t),
    lambda F, t: F.vmap(lambda x: x, in_dims="a")(t),
    lambda F, t: F.vmap(lambda x, y: x)(t, 3),
    lambda F, t: F.vmap(lambda x: 3)(t),
    lambda F, t: F.vmap(lambda x, y: x)(t, t[:1]),
    lambda F, t: F.vmap(lambda: 1)(),
    lambda F, t: F.vmap(lambda x: x, out_dims=(0, 1))(t),
    lambda F, t: F.vmap(lambda x: x, randomness="x")(t),
    lambda F, t: F.vmap(lambda x: x, in_dims=None)(t),
    lambda F, t: F.vmap(lambda x: x, in_dims=(None,))(t),
    lambda F, t: F.vmap(lambda x: x, chunk_size=0)(t),
    lambda F, t: F.grad(lambda x: x)(t),
    lambda F, t: F.grad(lambda x: 3.0)(t),
    lambda F, t: F.grad(lambda x: x.sum(), argnums=1)(t),
    lambda F, t: F.grad(lambda x: x.sum(), argnums=(0, 0))(t),
    lambda F, t: F.grad(lambda x: x.sum(), has_aux=True)(t),
    lambda F, t: F.jvp(lambda x: x, (t,), (t[0],)),
    lambda F, t: F.jvp(lambda x: x, t, t),
    lambda F, t: F.jvp(lambda x: x, (t,), (t, t)),
    lambda F, t: F.vjp(lambda x: (x, x), t)[1](t),
]


@pytest.mark.parametrize("case", range(len(BAD_VMAPS)))
def test_errors(case: int) -> None:
    call = BAD_VMAPS[case]
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        call(torch.func, torch.ones(2, 3))
    with pytest.raises(type(theirs.value)):
        call(adjoint.func, adjoint.ones(2, 3))
