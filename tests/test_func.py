"""Function transforms against finite differences and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import func as F


def inplace(x: Any) -> Any:
    y = x.clone()
    y[0] = x[1] * x[2]
    y[1:] *= x[:2]
    return (y * x).sum() + y[0] * y[-1]


def indexed(x: Any) -> Any:
    i = ad.tensor([2, 0, 0])
    z = ad.zeros(3, dtype=x.dtype).index_put((i,), x[i] * x, accumulate=True)
    return (z * z).sum()


def joined(x: Any) -> Any:
    y = ad.cat([x, x * x])
    return (ad.where(y > 0.5, y * y, y) * y.flip(0)).sum()


def products(x: Any) -> Any:
    m = x.unsqueeze(0) * x.unsqueeze(1)
    return (m @ m @ x).softmax(0)[0] + (m @ x).sum()


def views(x: Any) -> Any:
    z = x.reshape(3, 1).expand(3, 2).clone()
    z[:, 0].add_(x * x)
    z[1].mul_(x[0])
    return (z * z).sum()


FUNCTIONS: dict[str, Any] = {
    "smooth": lambda x: (x.sin() * x.exp()).sum(),
    "softmax": lambda x: (x.softmax(0) * x).sum() + x.logsumexp(0),
    "in place": inplace,
    "indexed": indexed,
    "joined": joined,
    "products": products,
    "views": views,
}
X = ad.tensor([0.3, 0.9, 1.7], dtype=ad.float64)
V = ad.tensor([1.0, -0.5, 2.0], dtype=ad.float64)
STEP = 1e-6


def difference(f: Any, x: Any) -> Any:
    """The derivative of f by central differences, the input's dimension last."""
    columns = []
    for j in range(x.numel()):
        e = np.zeros(x.numel())
        e[j] = STEP
        moved = ad.tensor(e, dtype=ad.float64)
        columns.append((f(x + moved).numpy() - f(x - moved).numpy()) / (2 * STEP))
    return np.stack(columns, -1)


FIRST: dict[str, Any] = {
    "grad": lambda f: F.grad(f)(X),
    "jacrev": lambda f: F.jacrev(f)(X),
    "jacfwd": lambda f: F.jacfwd(f)(X),
    "vjp": lambda f: F.vjp(f, X)[1](ad.tensor(1.0, dtype=ad.float64))[0],
    "vmapped jvp": lambda f: F.vmap(lambda v: F.jvp(f, (X,), (v,))[1])(X.new_eye(3)),
    "linearize": lambda f: F.vmap(F.linearize(f, X)[1])(X.new_eye(3)),
    "vmap of grad": lambda f: F.vmap(F.grad(f))(X.expand(2, 3))[1],
    "grad of vmap": lambda f: F.grad(lambda x: F.vmap(f)(x).sum())(X.expand(2, 3))[0],
    "chunked": lambda f: F.jacrev(f, chunk_size=1)(X),
}
SECOND: dict[str, Any] = {
    "hessian": lambda f: F.hessian(f)(X),
    "jacfwd of jacfwd": lambda f: F.jacfwd(F.jacfwd(f))(X),
    "jacrev of jacrev": lambda f: F.jacrev(F.jacrev(f))(X),
    "jacrev of jacfwd": lambda f: F.jacrev(F.jacfwd(f))(X),
    "vmap of hvp": lambda f: F.vmap(lambda v: F.hvp(f, (X,), (v,)))(X.new_eye(3)),
    "vmap of grad of jvp": lambda f: F.vmap(
        lambda v: F.grad(lambda x: F.jvp(f, (x,), (v,))[1])(X)
    )(X.new_eye(3)),
    "vmap of hessian": lambda f: F.vmap(F.hessian(f))(X.expand(2, 3))[1],
    "hessian of vmap": lambda f: F.hessian(lambda x: F.vmap(f)(x.expand(2, 3)).sum() / 2)(X),
    "functional": lambda f: ad.autograd.functional.hessian(f, X),
    "functional, vectorized": lambda f: ad.autograd.functional.hessian(f, X, vectorize=True),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("way", FIRST)
def test_first_derivative(way: str, name: str) -> None:
    f = FUNCTIONS[name]
    np.testing.assert_allclose(FIRST[way](f).numpy(), difference(f, X), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("way", FIRST)
def test_derivatives_do_not_ask_for_the_mode_of_their_caller(way: str) -> None:
    f = FUNCTIONS["in place"]
    with ad.no_grad():
        np.testing.assert_allclose(FIRST[way](f).numpy(), difference(f, X), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("way", SECOND)
def test_second_derivative(way: str, name: str) -> None:
    f = FUNCTIONS[name]
    wanted = difference(F.grad(f), X)
    np.testing.assert_allclose(SECOND[way](f).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_argnums_aux_and_trees() -> None:
    f: Any = lambda a, b: ((a["w"] * b).sum(), {"kept": b * 2})
    a, b = {"w": X}, V
    g, aux = F.grad(f, has_aux=True)(a, b)
    np.testing.assert_allclose(g["w"].numpy(), V.numpy())
    np.testing.assert_allclose(aux["kept"].numpy(), 2 * V.numpy())
    ga, gb = F.grad(lambda a, b: f(a, b)[0], argnums=(0, 1))(a, b)
    np.testing.assert_allclose(gb.numpy(), X.numpy())
    assert set(ga) == {"w"}
    (value, _), gradient = F.value_and_grad(f, has_aux=True)(a, b)
    np.testing.assert_allclose(value.item(), float((X * V).sum()))
    np.testing.assert_allclose(gradient["w"].numpy(), V.numpy())
    jac, kept = F.jacfwd(lambda x: (x * x, x.sum()), has_aux=True)(X)
    np.testing.assert_allclose(jac.numpy(), np.diag(2 * X.numpy()))
    assert kept.shape == ()
    last = F.grad(lambda a, b: (a * b * b).sum(), argnums=-1)(X, V)
    np.testing.assert_allclose(last.numpy(), 2 * X.numpy() * V.numpy())


def test_closures_over_tracked_tensors() -> None:
    w = X.clone().requires_grad_()
    g = F.grad(lambda x: (x * x * w).sum())(V)
    g.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * V.numpy())
    w.grad = None
    t = F.jvp(lambda x: (x * w).sin(), (V,), (X,))[1]
    rows = F.vmap(lambda v: (v * w).sum())(V.expand(2, 3))
    (t.sum() + rows.sum()).backward()
    c, s = np.cos(V.numpy() * X.numpy()), np.sin(V.numpy() * X.numpy())
    wanted = (c - s * V.numpy() * X.numpy()) * X.numpy() + 2 * V.numpy()
    np.testing.assert_allclose(w.grad.numpy(), wanted)


def test_no_grad_inside_counts_and_outside_does_not() -> None:
    def f(x: Any) -> Any:
        with ad.no_grad():
            c = x * x
        return (x - c).sum()

    assert F.grad(f)(X).tolist() == [1.0] * 3
    with ad.no_grad():
        assert F.grad(f)(X).tolist() == [1.0] * 3
    # forward mode does not know no_grad
    np.testing.assert_allclose(F.jvp(f, (X,), (V,))[1].item(), float((V - 2 * X * V).sum()))


def test_detach_is_constant_at_every_level() -> None:
    f = lambda x: (x.detach() * x * x).sum()
    np.testing.assert_allclose(F.grad(f)(X).numpy(), 2 * X.numpy() ** 2)
    second = F.grad(lambda x: F.grad(f)(x).sum())(X)
    np.testing.assert_allclose(second.numpy(), 2 * X.numpy())
    np.testing.assert_allclose(F.jvp(f, (X,), (V,))[1].item(), float((2 * X * X * V).sum()))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.long().double() * x,
        lambda x: x.bool().double() * x,
        lambda x: x + x.sum(dtype=ad.int64),
        lambda x: x * ad.count_nonzero(x),
        lambda x: ad.zeros(3, dtype=ad.int32).copy_(x * 3) * x,
        lambda x: ad.where(x > 0, (x * 9).int(), 1) * x,
    ],
)
def test_whole_numbers_carry_no_tangent(f: Any) -> None:
    """They are steps: what is made of them again has the derivative of a constant."""
    want = F.jacrev(f)(X)
    for found in (F.jacfwd(f)(X), ad.compile(F.jacfwd(f))(X)):
        np.testing.assert_allclose(found.numpy(), want.numpy())


def test_structural_zero_tangents() -> None:
    out, t = F.jvp(lambda x: ad.ones(2), (X,), (V,))
    assert t.tolist() == [0.0, 0.0]
    assert out.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="strict"):
        F.jvp(lambda x: ad.ones(2), (X,), (V,), strict=True)
    assert F.grad(lambda x: ad.ones(()))(X).tolist() == [0.0] * 3


def test_values_may_not_leave_their_transform() -> None:
    kept: list[Any] = []
    F.grad(lambda x: kept.append(x) or x.sum())(X)  # type: ignore[func-returns-value]
    with pytest.raises(RuntimeError):
        kept[0] + 1
    outside = ad.zeros(3, dtype=ad.float64)
    with pytest.raises(RuntimeError, match="made outside"):
        F.vmap(lambda x: outside.add_(x))(X.expand(2, 3))


def test_vmap_randomness() -> None:
    draw = lambda x: x + ad.rand(2)
    zeros = ad.zeros(3, 2)
    with pytest.raises(RuntimeError, match="random"):
        F.vmap(draw)(zeros)
    same = F.vmap(draw, randomness="same")(zeros)
    assert same[0].tolist() == same[1].tolist()
    different = F.vmap(draw, randomness="different")(zeros)
    assert different[0].tolist() != different[1].tolist()


class Affine:
    """Stands for a module: named parameters and buffers, and a call."""

    def __init__(self, scale: float) -> None:
        self._parameters = {"w": ad.full((2,), scale, requires_grad=True)}
        self._buffers = {"b": ad.ones(2)}
        self.training = True

    def __getattr__(self, name: str) -> Any:
        for table in (self.__dict__["_parameters"], self.__dict__["_buffers"]):
            if name in table:
                return table[name]
        raise AttributeError(name)

    def named_parameters(self, remove_duplicate: bool = True) -> Any:
        return self._parameters.items()

    def named_buffers(self, remove_duplicate: bool = True) -> Any:
        return self._buffers.items()

    def __call__(self, x: Any, *, scale: float = 1.0) -> Any:
        return (x * self.w + self.b) * scale


def test_functional_call_and_ensembles() -> None:
    models = [Affine(1.0), Affine(2.0)]
    x = ad.ones(2)
    out = F.functional_call(models[0], {"w": ad.zeros(2)}, (x,), {"scale": 3.0})
    assert out.tolist() == [3.0, 3.0]
    assert models[0].w.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="missing"):
        F.functional_call(models[0], {"w": ad.zeros(2)}, (x,), strict=True)
    with pytest.raises(ValueError, match="multiple"):
        F.functional_call(models[0], [{"w": x}, {"w": x}], x)
    params, buffers = F.stack_module_state(models)
    assert params["w"].requires_grad
    run = lambda p, b: F.functional_call(models[0], (p, b), x)
    assert F.vmap(run)(params, buffers).tolist() == [[2.0, 2.0], [3.0, 3.0]]
    g = F.grad(lambda p: F.functional_call(models[0], p, x).sum())(dict(models[0]._parameters))
    assert g["w"].tolist() == [1.0, 1.0]


def test_an_error_leaves_the_context_as_it_was() -> None:
    def fail(x: Any) -> Any:
        raise ZeroDivisionError

    for transform in (F.grad, F.vmap, F.jacrev, F.jacfwd):
        with pytest.raises(ZeroDivisionError):
            transform(fail)(X)
    assert (X + 1).tolist() == (X.numpy() + 1).tolist()
    assert ad.is_grad_enabled()


def test_debug_unwrap_and_functionalize() -> None:
    seen: list[Any] = []
    F.vmap(F.grad(lambda x: seen.append(F.debug_unwrap(x).tolist()) or x * x))(X)  # type: ignore[func-returns-value]
    assert seen == [X.tolist()]
    assert F.functionalize(inplace) is inplace


def test_rearrange() -> None:
    x = ad.arange(24).view(2, 3, 4)
    rearrange = ad.func.rearrange
    assert ad.equal(rearrange(x, "a b c -> c (a b)"), x.permute(2, 0, 1).reshape(4, 6))
    assert ad.equal(
        rearrange(x, "a b (c d) -> (d a) c b", d=2),
        x.view(2, 3, 2, 2).permute(3, 0, 2, 1).reshape(4, 2, 3),
    )
    assert ad.equal(rearrange(x, "... c -> c (...) 1"), x.permute(2, 0, 1).reshape(4, 6, 1))
    assert rearrange([x, x], "k ... -> ... k").shape == (2, 3, 4, 2)
    assert ad.func.vmap(lambda r: rearrange(r, "a b -> (b a)"))(x).shape == (2, 12)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a b -> b a", "2 dimensions, received shape"),
        ("a b c -> a b", "'c'.* both sides"),
        ("a b c a -> a b c", "twice"),
        ("a b (c d) -> a b c d", "all but one"),
        ("a b (c -> a b c", "not closed"),
        ("a b c", "one '->'"),
        ("a b c - -> a b c", "cannot read"),
        ("a b 1 -> a b", "size 4"),
    ],
)
def test_rearrange_refuses(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ad.func.rearrange(ad.ones(2, 3, 4), pattern)


def test_constants_inside_transforms_are_computed_as_outside() -> None:
    ad.manual_seed(0)
    x, w = ad.randn(6, 130), ad.randn(130, 130, requires_grad=True)

    def of_row(row: ad.Tensor) -> ad.Tensor:
        fixed = ad.nn.functional.softmax(w @ w.mT / 130, -1)  # of no transform: large, on the tape
        held = fixed.sum(0) * 2
        held[:65] = row[:65]  # made inside, so that values of the transform may be written to it
        return (fixed @ row * held).tanh().sum()

    each = ad.stack([of_row(row) for row in x])
    together = ad.func.vmap(of_row)(x)
    ad.testing.assert_close(together, each)
    wanted, found = (ad.autograd.grad(y.sum(), w)[0] for y in (each, together))
    ad.testing.assert_close(found, wanted)
    rows = x.clone().requires_grad_()
    (wanted,) = ad.autograd.grad(ad.stack([of_row(row) for row in rows]).sum(), rows)
    ad.testing.assert_close(ad.func.vmap(ad.func.grad(of_row))(x), wanted)
    _, tangent = ad.func.jvp(of_row, (x[0],), (x[1],))
    ad.testing.assert_close(tangent, (wanted[0] * x[1]).sum())
    with pytest.raises(RuntimeError, match="randomness"):
        ad.func.vmap(lambda row: row + ad.nn.functional.dropout(w, 0.5).sum())(x)


def _scaled(row: Any, other: Any) -> tuple[Any, ...]:
    row.mul_(2).sin_()
    return row.sum(), row * other


def _through_a_view(row: Any, other: Any) -> tuple[Any, ...]:
    before = row[1:] + 0
    row[1:].mul_(other[:-1])
    row[0] = other[2]
    return before, row[1:]


def _read_before(row: Any, other: Any) -> tuple[Any, ...]:
    total = other + row
    row.masked_fill_(row > 0, 3.0)
    return total, row.clone()


def _copied(row: Any, other: Any) -> tuple[Any, ...]:
    row.copy_(other.exp())
    other = other + row
    row[:2] += 1
    return row, other


@pytest.mark.parametrize("fn", [_scaled, _through_a_view, _read_before, _copied])
def test_writes_to_arguments_are_seen_outside(fn: Any) -> None:
    ad.manual_seed(0)
    x, y, t = ad.randn(3, 4), ad.randn(3, 4), ad.randn(3, 4)

    def by_rows(written: Any, other: Any) -> tuple[Any, Any]:
        rows = [row.clone() for row in written]  # each with memory of its own
        outs = [fn(row, o) for row, o in zip(rows, other, strict=True)]
        return [ad.stack(column) for column in zip(*outs, strict=True)], ad.stack(rows)

    def compare(transformed: Any) -> None:
        """With rows written one after another, by values and by gradients."""
        results = []
        for call in (by_rows, lambda w, o: (transformed(w, o), w)):
            leaf, other = x.clone().requires_grad_(), y.clone().requires_grad_()
            outs, written = call(leaf.clone(), other)
            total = sum((out * out).sum() for out in (*outs, written))
            grads = ad.autograd.grad(total, (leaf, other), materialize_grads=True)
            results.append([*outs, written, *grads])
        for wanted, found in zip(*results, strict=True):
            ad.testing.assert_close(found, wanted)

    vmap, jvp = ad.func.vmap, ad.func.jvp
    compare(lambda w, o: vmap(fn)(w, o))
    compare(lambda w, o: vmap(fn, in_dims=1)(w.mT, o.mT))
    compare(lambda w, o: [a[0] for a in vmap(vmap(fn))(w[None], o[None])])
    written = x.clone()
    vmap(fn, chunk_size=2)(written, y)
    ad.testing.assert_close(written, by_rows(x, y)[1])
    # The tangents are not written to: other values may have the same ones.
    written, tangent = x.clone(), t.clone()
    found = jvp(vmap(fn), (written, y), (tangent, t))
    wanted = jvp(lambda w, o: tuple(by_rows(w, o)[0]), (x, y), (t, t))
    for ours, theirs in zip(found, wanted, strict=True):
        ad.testing.assert_close(ours, theirs)
    ad.testing.assert_close(written, by_rows(x, y)[1])
    ad.testing.assert_close(tangent, t)


def test_statistics_of_stacked_modules_are_updated() -> None:
    norms = [ad.nn.BatchNorm1d(3), ad.nn.BatchNorm1d(3)]
    params, buffers = ad.func.stack_module_state(norms)
    x = ad.randn(2, 8, 3)
    ad.func.vmap(lambda p, b, x: ad.func.functional_call(norms[0], (p, b), (x,)))(
        params, buffers, x
    )
    for norm, part in zip(norms, x, strict=True):
        norm(part)
    for name, buffer in buffers.items():
        wanted = ad.stack([dict(norm.named_buffers())[name] for norm in norms])
        ad.testing.assert_close(buffer, wanted)


def _written_half(row: Any, w: Any) -> Any:
    held = (w * w).sum(0)
    held[:2] = row[:2]
    return (held * held * row).sum()


def _written_before_a_view(row: Any, w: Any) -> Any:
    held = w * w
    seen = held[1:]
    held[:2].mul_(row[0])
    return (seen.sum(0) * row).sum() + held.sum()


def _written_whole(row: Any, w: Any) -> Any:
    held = w.sin().sum(0)
    before = held * 2
    held.copy_(row)
    return (held * before).sum()


def _constant_times(row: Any, w: Any) -> Any:
    held = w.detach().sum(0)  # the rules need it as it is before each write
    held.mul_(row * w[0])
    held[1:].mul_(row[:2] + w[1, :2])
    return held.pow(2).sum()


WRITTEN = [_written_half, _written_before_a_view, _written_whole, _constant_times]


@pytest.mark.parametrize("fn", WRITTEN)
def test_what_is_written_to_keeps_its_gradient_beneath(fn: Any) -> None:
    # A tensor made inside a transform of something the transform does not follow: the tape, or
    # another transform, does.
    rng = np.random.default_rng(0)
    x = ad.tensor(rng.normal(size=(4, 3)))
    w = ad.tensor(rng.normal(size=(5, 3)), requires_grad=True)
    one_by_one = lambda w: ad.stack([fn(row.clone(), w) for row in x]).sum()
    together = lambda w: F.vmap(fn, in_dims=(0, None))(x, w).sum()
    (want,) = ad.autograd.grad(one_by_one(w), w)
    (got,) = ad.autograd.grad(together(w), w)
    ad.testing.assert_close(got, want)
    fixed, t = w.detach(), ad.ones_like(w)
    ad.testing.assert_close(F.grad(together)(fixed), want)
    ad.testing.assert_close(F.jvp(together, (fixed,), (t,))[1], want.sum())
    of_w = lambda w: F.grad(lambda rows: sum(fn(row, w) for row in rows))(x).sum()
    through = ad.stack([ad.cat([row, w.new_zeros(0)]) for row in x]).requires_grad_()
    (rows,) = ad.autograd.grad(sum(fn(row, w) for row in through), through, create_graph=True)
    (want,) = ad.autograd.grad(rows.sum(), w)
    ad.testing.assert_close(ad.autograd.grad(of_w(w), w)[0], want)
    ad.testing.assert_close(F.grad(of_w)(fixed), want)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda f, x, i: f.grad(lambda y: (y * 2.0).sum())(i), "floating point"),
        (lambda f, x, i: f.grad(lambda d: (d[0] * d[1]).sum())((x, i)), "floating point"),
        (lambda f, x, i: f.vjp(lambda y: y * 2.0, i), "floating point"),
        (lambda f, x, i: f.vjp(lambda y: y > 0, x), "floating-point"),
        (lambda f, x, i: f.jacrev(lambda y: y * 2.0)(i), "floating point"),
        (lambda f, x, i: f.jacfwd(lambda y: y * 2.0)(i), "floating point"),
        (lambda f, x, i: f.jvp(lambda y: y * 2.0, (i,), (x,)), "floating point"),
        (lambda f, x, i: f.vjp(lambda y: y * 2, x)[1](ad.ones(2)), "Mismatch in shape"),
        (lambda f, x, i: f.vjp(lambda y: y * 2, x)[1](ad.ones(1)), "Mismatch in shape"),
        (lambda f, x, i: f.vjp(lambda y: y.sum(), x)[1](ad.ones(1)), "Mismatch in shape"),
        (lambda f, x, i: f.vjp(lambda y: y.sum(), x)[1](3.0), "can be either Tensors or None"),
        (lambda f, x, i: f.vmap(f.vjp(lambda y: y, x)[1])(ad.ones(4, 2)), "Mismatch in shape"),
        (lambda f, x, i: f.linearize(lambda y: y * 2, x)[1](ad.ones(4)), "a tangent has shape"),
        (lambda f, x, i: f.jacrev(lambda y: y * 1j)(x), "outputs to be real"),
        (lambda f, x, i: f.jacrev(lambda y: y * 1j)(x * 1j), "inputs to be real"),
        (lambda f, x, i: f.jacfwd(lambda y: y.abs())(x * 1j), "inputs to be real"),
    ],
)
def test_transforms_refuse_what_has_no_derivative_or_does_not_fit(call: Any, error: str) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError), match=error):
        call(ad.func, ad.ones(3), ad.tensor([1, 2, 3]))


def test_a_cotangent_takes_the_dtype_of_its_output() -> None:
    pull = ad.func.vjp(lambda x: x * 2, ad.ones(3))[1]
    for dtype in (ad.float64, ad.int64):
        assert pull(ad.ones(3, dtype=dtype))[0].dtype is ad.float32


@pytest.mark.parametrize("own", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("given", ["float16", "float32", "float64", "complex64"])
def test_tangents_become_what_their_primals_are(own: str, given: str) -> None:
    from adjoint.autograd import forward_ad

    x, v = ad.ones(3, dtype=getattr(ad, own)), ad.ones(3, dtype=getattr(ad, given))
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(forward_ad.make_dual(x, v).sin())
    assert out.tangent is not None
    assert out.tangent.dtype is x.dtype
    ad.testing.assert_close(out.tangent, x.cos())
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="a different size than that"):
        forward_ad.make_dual(x, v[:1])


def test_gradients_of_duals_carry_tangents() -> None:
    from adjoint.autograd import forward_ad

    x = ad.linspace(0.5, 1.5, 4, requires_grad=True)
    w = ad.linspace(1.0, 2.0, 4, requires_grad=True)
    v, h = ad.linspace(-1.0, 1.0, 4), ad.linspace(2.0, 3.0, 4)
    with forward_ad.dual_level():
        dual, seed = forward_ad.make_dual(x, v), forward_ad.make_dual(w.detach(), h)
        middle = dual.exp()
        loss = (middle**2 * w).sum()
        by_x, by_w = ad.autograd.grad(loss, (dual, w), retain_graph=True)
        with pytest.raises(RuntimeError, match="by the tensors handed to make_dual"):
            ad.autograd.grad(loss, middle)  # whose tangent is made of it
        (pulled,) = ad.autograd.grad(middle, x, seed)
        found = [forward_ad.unpack_dual(g) for g in (by_x, by_w, pulled)]
    e, e2 = x.exp(), (2 * x).exp()
    wanted = [
        (2 * w * e2, 4 * w * e2 * v),
        (e2, 2 * e2 * v),
        (w * e, (w * v + h) * e),
    ]
    for pair, expected in zip(found, wanted, strict=True):
        ad.testing.assert_close(pair.primal, expected[0].detach())
        ad.testing.assert_close(pair.tangent, expected[1].detach())


def test_a_gradient_of_duals_refuses_a_tangent_on_the_tape() -> None:
    from adjoint.autograd import forward_ad

    x = ad.ones(3, requires_grad=True)
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="Detach the tangent"):
        ad.autograd.grad((forward_ad.make_dual(x, x * 2) ** 2).sum(), x)
