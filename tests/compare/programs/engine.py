"""backward and autograd.grad."""

from __future__ import annotations

from typing import Any

from tests.compare.programs.registry import leaf, program


@program
def second_backward(t: Any) -> Any:
    y = (leaf(t) ** 2).sum()
    y.backward()
    y.backward()


@program
def second_backward_of_add(t: Any) -> Any:
    x = leaf(t)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    return x.grad


@program
def retained(t: Any) -> Any:
    x = leaf(t)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@program
def nonscalar_backward(t: Any) -> Any:
    (leaf(t) * 2).backward()


@program
def untracked_backward(t: Any) -> Any:
    t.ones(()).backward()


@program
def one_element_backward(t: Any) -> Any:
    x = leaf(t, 3.0)
    (x * x).backward()
    return x.grad


@program
def seed_shape(t: Any) -> Any:
    (leaf(t) * 2).backward(t.ones(2, dtype=t.float64))


@program
def seed_dtype(t: Any) -> Any:
    x = leaf(t)
    (x * 2).backward(t.ones(3, dtype=t.float32))
    return x.grad, x.grad.dtype is t.float64


@program
def chosen_inputs(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    h = x * y
    (h * h).sum().backward(inputs=[x])
    return x.grad, y.grad


@program
def chosen_inner_input(t: Any) -> Any:
    x = leaf(t)
    h = x * 2
    (h * h).sum().backward(inputs=[h])
    return h.grad, x.grad


@program
def empty_inputs(t: Any) -> Any:
    leaf(t).sum().backward(inputs=[])


@program
def unused(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    return t.autograd.grad((x * 2).sum(), [x, y])


@program
def unused_allowed(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    return t.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)


@program
def unused_materialized(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    return t.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)


@program
def materialized_conflict(t: Any) -> Any:
    x = leaf(t)
    t.autograd.grad((x * 2).sum(), [x], materialize_grads=True, allow_unused=False)


@program
def no_inputs(t: Any) -> Any:
    t.autograd.grad(leaf(t).sum(), [])


@program
def untracked_input(t: Any) -> Any:
    t.autograd.grad(leaf(t).sum(), t.ones(3))


@program
def grad_of_itself(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    return t.autograd.grad(y.sum(), [y, x]), t.autograd.grad(x, x, t.ones(3, dtype=t.float64))


@program
def grad_leaves_leaves_alone(t: Any) -> Any:
    x = leaf(t)
    t.autograd.grad((x * x).sum(), x)
    return x.grad


@program
def third_order(t: Any) -> Any:
    x = leaf(t)
    y = (x**4).sum()
    out = []
    for _ in range(3):
        (y,) = t.autograd.grad(y, x, create_graph=True)
        out.append(y)
        y = y.sum()
    return out


@program
def create_graph_backward(t: Any) -> Any:
    x = leaf(t)
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    (g * g).sum().backward()
    return x.grad


@program
def mixed_partials(t: Any) -> Any:
    x, w = leaf(t), leaf(t, 4, 5, 6)
    y = ((x * w).sin() @ w).exp() / 100
    gx, gw = t.autograd.grad(y, [x, w], create_graph=True)
    return t.autograd.grad(gx.sum() * gw.sum(), [x, w])


@program
def batched_grads(t: Any) -> Any:
    x = leaf(t)
    y = x * x * x
    return t.autograd.grad(y, x, t.eye(3, dtype=t.float64), is_grads_batched=True)


@program
def several_roots(t: Any) -> Any:
    x = leaf(t)
    a, b = x * 2, (x * x).sum()
    t.autograd.backward([a, b], [t.ones(3, dtype=t.float64), None])
    return x.grad


@program
def backward_in_no_grad(t: Any) -> Any:
    x = leaf(t)
    y = (x * x).sum()
    with t.no_grad():
        y.backward()
    return x.grad, x.grad.requires_grad


@program
def multi_output_partial(t: Any) -> Any:
    x = leaf(t, 3, 1, 2)
    values, indices = x.sort()
    (values[0] * 2).backward()
    _, b = x.split([1, 2])
    (b * b).sum().backward()
    return x.grad, indices, indices.requires_grad


@program
def complex_gradient(t: Any) -> Any:
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    (z * z.conj()).real.sum().backward()
    g = z.grad.clone()
    z.grad = None
    (z * z).abs().sum().backward()
    return g, z.grad


@program
def complex_implicit(t: Any) -> Any:
    z = t.tensor(1 + 2j, dtype=t.complex128, requires_grad=True)
    (z * z).backward()


@program
def real_into_complex(t: Any) -> Any:
    x = leaf(t)
    z = t.tensor([1 + 2j, 3 - 1j, 2j], dtype=t.complex128)
    (x * z).abs().sum().backward()
    return x.grad


@program
def promoted(t: Any) -> Any:
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = t.tensor([3.0, 4.0], dtype=t.float64, requires_grad=True)
    (x * y).sum().backward()
    return x.grad, y.grad, x.grad.dtype is t.float32


@program
def broadcast(t: Any) -> Any:
    x = leaf(t)
    y = t.tensor(2.0, dtype=t.float64, requires_grad=True)
    z = t.ones(4, 1, dtype=t.float64, requires_grad=True)
    (x * y + z).sum().backward()
    return x.grad, y.grad, z.grad


@program
def diamond(t: Any) -> Any:
    x = leaf(t)
    a = x.sin()
    b = a * a + a.exp()
    (b * a).sum().backward()
    return x.grad
