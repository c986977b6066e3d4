"""Custom functions in every context, checkpoints, and the tapes people carry over."""

from __future__ import annotations

import gc
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import Function, gradcheck, gradgradcheck
from adjoint.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential

F = ad.func


class Cube(Function):
    """Saves an input and an output, has a flag and a second output without gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, k: Any) -> Any:
        return x * x * x * k, x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, k = inputs
        ctx.save_for_backward(x, output[1])
        ctx.save_for_forward(x, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.k = k

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        x, _square = ctx.saved_tensors
        return g * 3 * x * x * ctx.k, None

    @staticmethod
    def jvp(ctx: Any, t: Any, _: Any) -> Any:
        x, _square = ctx.saved_tensors
        return t * 3 * x * x * ctx.k, None


class Exp(Function):
    """The old form: one forward with ctx, saving its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (out,) = ctx.saved_tensors
        return g * out


def cube(x: Any) -> Any:
    return Cube.apply(x, 2.0)[0]


def plain_cube(x: Any) -> Any:
    return x * x * x * 2.0


X = ad.tensor([0.5, 1.0, 2.0], dtype=ad.float64)
V = ad.tensor([1.0, -1.0, 0.5], dtype=ad.float64)


def slope(f: Any, x: Any) -> Any:
    """A derivative within a transform that goes along the same nodes."""
    return ad.autograd.grad(f(x).sum(), x, create_graph=True)[0]


CONTEXTS: dict[str, Any] = {
    "grad": lambda f: F.grad(lambda x: f(x).sum())(X),
    "grad of grad": lambda f: F.grad(lambda x: (F.grad(lambda x: f(x).sum())(x) * V).sum())(X),
    "jvp": lambda f: F.jvp(f, (X,), (V,))[1],
    "jvp of grad": lambda f: F.jvp(F.grad(lambda x: f(x).sum()), (X,), (V,))[1],
    "grad of jvp": lambda f: F.grad(lambda x: F.jvp(f, (x,), (V,))[1].sum())(X),
    "vmap": lambda f: F.vmap(f)(X),
    "vmap of grad": lambda f: F.vmap(F.grad(f))(X),
    "grad of vmap": lambda f: F.grad(lambda x: F.vmap(f)(x).sum())(X),
    "vmap of jvp": lambda f: F.vmap(lambda x, v: F.jvp(f, (x,), (v,))[1])(X, V),
    "jvp of vmap": lambda f: F.jvp(F.vmap(f), (X,), (V,))[1],
    "vmap of grad of grad": lambda f: F.vmap(F.grad(F.grad(f)))(X),
    "vmap of vmap": lambda f: F.vmap(F.vmap(f))(X.expand(2, 3)),
    "unbatched argument": lambda f: F.grad(
        lambda y: F.vmap(lambda x: f(x * y))(X).sum()
    )(ad.tensor(2.0, dtype=ad.float64)),
    "jacrev": lambda f: F.jacrev(f)(X),
    "jacfwd": lambda f: F.jacfwd(f)(X),
    "hessian": lambda f: F.hessian(lambda x: f(x).sum())(X),
    "grad of autograd.grad": lambda f: F.grad(lambda x: (slope(f, x) * V).sum())(X),
    "vmap of grad of autograd.grad": lambda f: F.vmap(F.grad(lambda x: slope(f, x).pow(2)))(X),
    "grad of grad of autograd.grad": lambda f: F.grad(
        lambda x: F.grad(lambda x: slope(f, x).sum())(x).sum()
    )(X),
}  # fmt: skip


@pytest.mark.parametrize("context", CONTEXTS)
def test_custom_equals_plain(context: str) -> None:
    run = CONTEXTS[context]
    np.testing.assert_allclose(run(cube).numpy(), run(plain_cube).numpy())


def test_old_form_inside_transforms() -> None:
    f = lambda x: Exp.apply(x).sum()
    want = np.exp(X.numpy())
    np.testing.assert_allclose(F.grad(f)(X).numpy(), want)
    np.testing.assert_allclose(F.grad(lambda x: F.grad(f)(x).sum())(X).numpy(), want)
    np.testing.assert_allclose(F.jacrev(Exp.apply)(X).numpy(), np.diag(want))
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        F.vmap(Exp.apply)(X)
    with pytest.raises(NotImplementedError, match="jvp"):
        F.jvp(Exp.apply, (X,), (V,))


def test_gradchecks() -> None:
    x = X.clone().requires_grad_()
    assert gradcheck(cube, (x,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(cube, (x,), check_fwd_over_rev=True)
    assert gradgradcheck(Exp.apply, (x,))
    z = ad.tensor([0.3 + 1j, 1.2 - 0.5j], dtype=ad.complex128, requires_grad=True)
    assert gradcheck(lambda z: ((z * z).exp(), z.abs()), (z,), check_forward_ad=True)


def test_attributes_are_the_users() -> None:
    class Named(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.edges = ctx.outputs = ctx.saved = ctx.level = ctx.function = 3
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.edges * ctx.saved

    x = X.clone().requires_grad_()
    y = Named.apply(x)
    assert y.grad_fn.level == 3
    y.sum().backward()
    assert x.grad.tolist() == [9.0] * 3


def test_contexts_are_freed() -> None:
    gc.collect()
    gc.disable()
    try:
        y = Exp.apply(X.clone().requires_grad_())
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_instances_are_refused() -> None:
    with pytest.raises(RuntimeError, match="apply"):
        Exp()


def block(x: Any, w: Any) -> tuple[Any, Any]:
    h = (x * w).sin()
    return h * h.exp(), h


def outcome(run: Any) -> list[Any]:
    x, w = X.clone().requires_grad_(), V.clone().requires_grad_()
    a, b = run(x, w)
    (a.sum() + 2 * (b * b).sum()).backward()
    return [x.grad.numpy(), w.grad.numpy()]


@pytest.mark.parametrize("outer", [None, True, False])
@pytest.mark.parametrize("inner", [None, True, False])
def test_checkpoints_nest(outer: bool | None, inner: bool | None) -> None:
    run = lambda x, w: block(x, w)
    if inner is not None:
        run = lambda x, w: checkpoint(block, x * 1, w, use_reentrant=inner)
    wrapped = run
    if outer is not None:
        wrapped = lambda x, w: checkpoint(run, x, w, use_reentrant=outer)
    for got, want in zip(outcome(wrapped), outcome(block), strict=True):
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_replay_random_numbers(reentrant: bool) -> None:
    x = ad.ones(5, dtype=ad.float64, requires_grad=True)
    y = checkpoint(lambda x: x * ad.rand(5, dtype=ad.float64) * x, x, use_reentrant=reentrant)
    state = ad.get_rng_state()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.detach().numpy())
    assert bool((ad.get_rng_state() == state).all())


def test_checkpoint_frees_what_it_recomputes() -> None:
    x = X.clone().requires_grad_()
    held: list[Any] = []

    def fn(x: Any) -> Any:
        h = x.sin()
        held.append(weakref.ref(h))
        return h.exp().sin()

    y = checkpoint(fn, x, use_reentrant=False)
    assert held[0]() is None
    y.sum().backward()
    assert len(held) == 2
    assert held[1]() is None


def test_checkpoint_notices_another_computation() -> None:
    sizes = iter([3, 2])
    fn = lambda x: (x[: next(sizes)] ** 2).sum()
    y = checkpoint(fn, X.clone().requires_grad_(), use_reentrant=False)
    with pytest.raises(CheckpointError, match="metadata"):
        y.backward()


def test_checkpoint_arguments() -> None:
    x = X.clone().requires_grad_()
    y = checkpoint(lambda x, *, k: x * k * x, x, k=3.0, use_reentrant=False)
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = ad.autograd.grad(g.sum(), x)
    assert gg.tolist() == [6.0] * 3
    with pytest.raises(ValueError, match="keyword"):
        checkpoint(lambda x, k: x, x, k=1, use_reentrant=True)
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(lambda x: x, x)
    parts = [lambda x: x.sin(), lambda x: x * x, lambda x: x.exp(), lambda x: x * 2]
    for reentrant in (True, False):
        x.grad = None
        checkpoint_sequential(parts, 2, x, use_reentrant=reentrant).sum().backward()
        s, c = np.sin(X.numpy()), np.cos(X.numpy())
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(s * s) * 2 * s * c)


def test_checkpoint_inside_a_transform() -> None:
    f = lambda x: checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).sum()
    np.testing.assert_allclose(
        F.grad(f)(X).numpy(), F.grad(lambda x: x.sin().exp().sum())(X).numpy()
    )


def test_gradient_tape() -> None:
    x = ad.tensor([1.0, 2.0])
    with ad.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = (y * y).sum()
    assert not x.requires_grad
    assert tape.gradient(z, x).tolist() == [4.0, 32.0]
    assert tape.gradient(z, {"x": x, "y": [y]})["y"][0].tolist() == [2.0, 8.0]
    assert tape.jacobian(y, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert tape.gradient(z, ad.ones(1)) is None
    assert tape.gradient(z, ad.ones(1), unconnected_gradients="zero").tolist() == [0.0]
    assert tape.gradient(y, x, output_gradients=ad.tensor([1.0, 10.0])).tolist() == [2.0, 40.0]


def test_gradient_tapes_nest() -> None:
    x = ad.tensor(3.0, requires_grad=True)
    with ad.GradientTape() as outer:
        with ad.GradientTape() as inner:
            y = x * x * x
        g = inner.gradient(y, x)
    assert outer.gradient(g, x).item() == 18.0
    with pytest.raises(RuntimeError, match="non-persistent"):
        outer.gradient(g, x)
    with ad.GradientTape() as tape, tape.stop_recording():
        z = x * 2
    assert tape.gradient(z, x) is None


def test_gradient_tape_batch_jacobian() -> None:
    m = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    with ad.GradientTape() as tape:
        tape.watch(m)
        y = m * m
    assert tape.batch_jacobian(y, m).tolist() == [
        [[2.0, 0.0], [0.0, 4.0]],
        [[6.0, 0.0], [0.0, 8.0]],
    ]


def test_hooks_keep_what_an_in_place_operation_overwrites() -> None:
    def fn(x: Any) -> Any:
        y = x * 1
        y.mul_(x)
        y[0].mul_(y[1])
        y.exp_()
        return y.sin_()

    def plain(x: Any) -> Any:
        y = x * x
        return ad.cat([y[:1] * y[1], y[1:]]).exp().sin().sum()

    wanted = F.grad(plain)(X).numpy()
    for run in (
        fn,
        lambda x: checkpoint(fn, x, use_reentrant=False),
        lambda x: checkpoint(fn, x, use_reentrant=True),
    ):
        x = X.clone().requires_grad_()
        run(x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), wanted)
    x = X.clone().requires_grad_()
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = fn(x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted)
    x = X.clone().requires_grad_()
    with ad.autograd.graph.save_on_cpu():
        y = fn(x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted)


def test_gradients_that_nobody_asked_for_may_have_any_shape() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor, by: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(by)
            return x * by[0]

        @staticmethod
        def backward(ctx: Any, g: ad.Tensor) -> Any:
            return g * ctx.saved_tensors[0][0], ad.ones(7)

    x, by = ad.ones(2, requires_grad=True), ad.tensor([3.0, 4.0, 5.0])
    Scaled.apply(x, by).sum().backward()
    assert (x.grad.tolist(), by.grad) == ([3.0, 3.0], None)
    with pytest.raises(RuntimeError, match="invalid gradient at index 1"):
        Scaled.apply(x, by.requires_grad_()).sum().backward()


def test_gradients_do_not_share_memory_with_what_users_keep() -> None:
    """`backward` and hooks may return a tensor that they have elsewhere, or keep what they see."""
    kept = ad.ones(3)

    class Constant(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return kept

    def by_function(x: ad.Tensor) -> ad.Tensor:
        return Constant.apply(x)

    def by_hook_of_tensor(x: ad.Tensor) -> ad.Tensor:
        y = x + 0
        y.register_hook(lambda g: kept)
        return y

    def by_hook_of_node(x: ad.Tensor) -> ad.Tensor:
        y = x + 0
        y.grad_fn.register_hook(lambda out, into: (kept, *out[1:]))
        return y

    for make in (by_function, by_hook_of_tensor, by_hook_of_node):
        x = ad.zeros(3, requires_grad=True)
        for _ in range(2):  # the second is added to the first
            make(x).sum().backward()
        assert x.grad.tolist() == [2.0] * 3
        assert kept.tolist() == [1.0] * 3, make.__name__
    seen: list[ad.Tensor] = []
    x = ad.zeros(3, requires_grad=True)
    y = x + 0
    y.register_hook(seen.append)
    y.sum().backward()
    x.grad.zero_()
    assert seen[0].tolist() == [1.0] * 3


class Given(Function):
    """Notes what its backward is given."""

    seen: ClassVar[list[Any]] = []
    makes_zeros = True

    @classmethod
    def forward(cls, ctx: Any, x: Any) -> Any:  # type: ignore[override]
        ctx.set_materialize_grads(cls.makes_zeros)
        return x * 1

    @classmethod
    def backward(cls, ctx: Any, g: Any) -> Any:  # type: ignore[override]
        Given.seen.append(g if g is None else g.tolist())
        return g


class GivenNone(Given):
    makes_zeros = False


class Nothing(Function):
    """Gives its operand no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("way", "seen", "gradient"),
    [
        (lambda x: Nothing.apply(x * 2), [], None),
        (lambda x: Nothing.apply(Given.apply(x)), [[0.0, 0.0]], [0.0, 0.0]),
        (lambda x: Nothing.apply(Given.apply(x.exp())), [[0.0, 0.0]], [0.0, 0.0]),
        (lambda x: Nothing.apply(Given.apply(x).exp()), [[0.0, 0.0]], [0.0, 0.0]),
        (lambda x: Nothing.apply(GivenNone.apply(x)), [None], None),
        (lambda x: Nothing.apply(GivenNone.apply(Given.apply(x))), [None, [0.0, 0.0]], [0.0, 0.0]),
        (lambda x: Nothing.apply(y := Given.apply(x)) + y, [[1.0, 1.0]], [1.0, 1.0]),
    ],
)
def test_functions_behind_no_gradient_are_given_zeros(
    way: Any, seen: list[Any], gradient: Any
) -> None:
    """All that lies behind runs, as in PyTorch: Note [no cotangent]."""
    Given.seen.clear()
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    way(x).sum().backward()
    assert Given.seen == seen
    assert (None if x.grad is None else x.grad.tolist()) == gradient
    (alone,) = ad.autograd.grad(way(x).sum(), x, allow_unused=True)
    assert (None if alone is None else alone.tolist()) == gradient
    assert Given.seen == 2 * seen


def test_hooks_are_shown_that_there_is_no_gradient() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    seen: list[Any] = []
    y.retain_grad()
    y.register_hook(lambda g: seen.append(("tensor", g)))
    y.grad_fn.register_prehook(lambda gs: seen.append(("before", *gs)))
    y.grad_fn.register_hook(lambda gs, _: seen.append(("behind", *gs)))
    x.register_hook(lambda g: seen.append(("leaf", g)))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(("arrived", leaf.grad)))
    Nothing.apply(y).sum().backward()
    names = ["tensor", "before", "behind", "leaf", "arrived"]
    assert seen == [(name, None) for name in names]
    assert x.grad is None
    assert y.grad is None
    values, vectors = ad.linalg.eigh(ad.eye(2, requires_grad=True))
    vectors.register_hook(lambda g: seen.append(("unused", g)))
    values.sum().backward()
    assert seen[-1] == ("unused", None)


@pytest.mark.parametrize("kind", ["tensor", "before", "leaf"])
def test_hooks_do_not_make_a_gradient_of_none(kind: str) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    if kind == "before":
        y.grad_fn.register_prehook(lambda _: (ad.ones(2),))
    else:
        (x if kind == "leaf" else y).register_hook(lambda _: ad.ones(2))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        Nothing.apply(y).sum().backward()
