"""Custom functions and saved-tensor hooks."""

from __future__ import annotations

from typing import Any

from tests.compare.programs.registry import leaf, program


@program
def packed(t: Any) -> Any:
    x = leaf(t)
    seen = []

    def pack(s: Any) -> Any:
        seen.append(tuple(s.shape))
        return s * 1

    with t.autograd.graph.saved_tensors_hooks(pack, lambda s: s * 2):
        y = x.exp() * x
    y.sum().backward()
    return x.grad, seen


@program
def hooks_refused(t: Any) -> Any:
    g = t.autograd.graph
    with g.disable_saved_tensors_hooks("no hooks"), g.saved_tensors_hooks(lambda s: s, lambda s: s):
        pass


def custom_function(t: Any, body: dict[str, Any]) -> Any:
    statics = {k: staticmethod(v) if callable(v) else v for k, v in body.items()}
    return type("Custom", (t.autograd.Function,), statics)


def square_forward(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def square_backward(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return g * 2 * x


@program
def custom_double(t: Any) -> Any:
    F = custom_function(t, {"forward": square_forward, "backward": square_backward})
    x = leaf(t)
    y = F.apply(x)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return y, g, t.autograd.grad((g * x).sum(), x), type(y.grad_fn).__name__


@program
def custom_stale(t: Any) -> Any:
    F = custom_function(t, {"forward": square_forward, "backward": square_backward})
    x = leaf(t) * 1
    y = F.apply(x)
    x.add_(1)
    y.sum().backward()


@program
def custom_second_backward(t: Any) -> Any:
    F = custom_function(t, {"forward": square_forward, "backward": square_backward})
    y = F.apply(leaf(t)).sum()
    y.backward()
    y.backward()


@program
def custom_many(t: Any) -> Any:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, k: Any, y: Any) -> Any:
        ctx.k = k
        ctx.save_for_backward(x, y)
        i = (x > 1).to(t.int64)
        ctx.mark_non_differentiable(i)
        return x * y * k, i, x + y

    def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
        _, y = ctx.saved_tensors
        seen.append((ctx.needs_input_grad, b.dtype is t.int64, c.abs().sum()))
        return a * y * ctx.k + c, None, None

    F = custom_function(t, {"forward": forward, "backward": backward})
    x = leaf(t)
    y = t.ones(3, dtype=t.float64)
    a, i, _ = F.apply(x, 3, y)
    a.sum().backward()
    return x.grad, a, i, i.requires_grad, seen


@program
def custom_unmaterialized(t: Any) -> Any:
    seen = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append((a is None, b is None))
        return b * 2

    F = custom_function(t, {"forward": forward, "backward": backward})
    x = leaf(t)
    F.apply(x)[1].sum().backward()
    return x.grad, seen


@program
def custom_dirty(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    F = custom_function(t, {"forward": forward, "backward": lambda ctx, g: g * 2})
    x = leaf(t)
    y = x * 1
    z = F.apply(y)
    b = x * 1
    F.apply(b[0])
    (y * y + b).sum().backward()
    return x.grad, z is y, type(y.grad_fn).__name__


@program
def custom_dirty_leaf(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    custom_function(t, {"forward": forward, "backward": lambda ctx, g: g}).apply(leaf(t))


@program
def custom_identity(t: Any) -> Any:
    F = custom_function(t, {"forward": lambda ctx, x: x, "backward": lambda ctx, g: g * 7})
    x = leaf(t)
    y = F.apply(x)
    y.sum().backward()
    return x.grad, y is x


@program
def custom_wrong_count(t: Any) -> Any:
    F = custom_function(t, {"forward": lambda ctx, x, y: x * y, "backward": lambda ctx, g: g})
    F.apply(leaf(t), leaf(t)).sum().backward()


@program
def custom_wrong_shape(t: Any) -> Any:
    F = custom_function(t, {"forward": lambda ctx, x: x * 2, "backward": lambda ctx, g: g[:2]})
    F.apply(leaf(t)).sum().backward()


@program
def custom_expandable(t: Any) -> Any:
    F = custom_function(
        t,
        {
            "forward": lambda ctx, x: x * 2,
            "backward": lambda ctx, g: g.sum() * t.ones(2, 3, dtype=t.float64),
        },
    )
    x = leaf(t)
    F.apply(x).sum().backward()
    return x.grad


@program
def custom_grad_for_number(t: Any) -> Any:
    F = custom_function(t, {"forward": lambda ctx, x, k: x * k, "backward": lambda ctx, g: (g, g)})
    F.apply(leaf(t), 2).sum().backward()


@program
def custom_no_backward(t: Any) -> Any:
    F = custom_function(t, {"forward": lambda ctx, x: x * 2})
    F.apply(leaf(t)).sum().backward()


@program
def custom_save_number(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(3)
        return x * 2

    custom_function(t, {"forward": forward, "backward": lambda ctx, g: g}).apply(leaf(t))


@program
def custom_once(t: Any) -> Any:
    once = t.autograd.function.once_differentiable
    F = custom_function(t, {"forward": square_forward, "backward": once(square_backward)})
    x = leaf(t)
    seed = t.ones(3, dtype=t.float64, requires_grad=True)
    (g,) = t.autograd.grad(F.apply(x), x, seed, create_graph=True)
    t.autograd.grad(g.sum(), x)


@program
def custom_jvp(t: Any) -> Any:
    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    F = custom_function(
        t,
        {
            "forward": lambda x: x * x,
            "setup_context": setup,
            "backward": square_backward,
            "jvp": lambda ctx, v: 2 * ctx.saved_tensors[0] * v,
            "generate_vmap_rule": True,
        },
    )
    F.generate_vmap_rule = True
    x = leaf(t).detach()
    v = t.ones(3, dtype=t.float64)
    f = lambda x: F.apply(x).sum()
    T = t.func
    return [
        T.jvp(F.apply, (x,), (v,)),
        T.grad(f)(x),
        T.jacrev(F.apply)(x),
        T.jacfwd(F.apply)(x),
        T.vmap(F.apply)(x),
        T.vmap(T.grad(lambda x: F.apply(x)))(x),
        T.grad(lambda x: T.vmap(F.apply)(x).sum())(x),
        T.hessian(f)(x),
        T.grad(lambda x: T.grad(f)(x).sum())(x),
    ]


@program
def custom_vmap(t: Any) -> Any:
    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    holder: dict[str, Any] = {}

    def batched(info: Any, in_dims: Any, x: Any, k: Any) -> Any:
        return holder["F"].apply(x.movedim(in_dims[0], 0), k) + info.batch_size, 0

    F = holder["F"] = custom_function(
        t,
        {"forward": lambda x, k: x * k, "setup_context": setup, "vmap": batched,
         "backward": lambda ctx, g: (g, None)},
    )  # fmt: skip
    return t.func.vmap(lambda x: F.apply(x, 2))(t.ones(3, 2))


@program
def custom_vmap_missing(t: Any) -> Any:
    F = custom_function(
        t,
        {"forward": lambda x: x * 2, "setup_context": lambda ctx, i, o: None,
         "backward": lambda ctx, g: g},
    )  # fmt: skip
    t.func.vmap(F.apply)(t.ones(3))
