"""Hooks on tensors and nodes."""

from __future__ import annotations

from typing import Any

from tests.compare.programs.registry import leaf, program


@program
def hook_order(t: Any) -> Any:
    x = leaf(t)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append("y1"))
    y.retain_grad()
    y.register_hook(lambda g: seen.append("y2"))
    y.grad_fn.register_prehook(lambda g: seen.append("node pre"))
    y.grad_fn.register_hook(lambda a, b: seen.append("node post"))
    x.register_hook(lambda g: seen.append("x"))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(f"acc {p.grad is not None}"))
    z = y.sum()
    z.register_hook(lambda g: seen.append("z"))
    z.backward()
    return seen, y.grad


@program
def hook_replaces(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    handle = y.register_hook(lambda g: g + 1)
    y.retain_grad()
    x.register_hook(lambda g: -g)
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    handle.remove()
    x.grad = None
    y.sum().backward()
    return first, x.grad, y.grad


@program
def hook_on_grad_call(t: Any) -> Any:
    x = leaf(t)
    x.register_hook(lambda g: g * 3)
    y = x * 2
    y.register_hook(lambda g: g * 5)
    return t.autograd.grad(y.sum(), [x, y])


@program
def hook_on_untracked(t: Any) -> Any:
    t.ones(2).register_hook(lambda g: g)


@program
def accumulate_hook_on_nonleaf(t: Any) -> Any:
    (leaf(t) * 2).register_post_accumulate_grad_hook(lambda p: None)


@program
def retain_untracked(t: Any) -> Any:
    t.ones(2).retain_grad()


@program
def retain_leaf(t: Any) -> Any:
    x = leaf(t)
    x.retain_grad()
    return x.retains_grad


@program
def retain_twice(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return y.grad


@program
def retain_then_write(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * y).sum().backward()
    return y.grad, x.grad


@program
def optimizer_in_backward(t: Any) -> Any:
    x = leaf(t)

    def step(p: Any) -> None:
        with t.no_grad():
            p -= 0.1 * p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        (x * x).sum().backward()
    return x, x.grad


@program
def node_hook_replaces(t: Any) -> Any:
    x = leaf(t)
    y = x.exp()
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 2,))
    y.sum().backward()
    return x.grad


@program
def multi_hook(t: Any) -> Any:
    x, y = leaf(t), leaf(t)
    seen = []
    t.autograd.graph.register_multi_grad_hook(
        [x, y], lambda gs: seen.append([g is None for g in gs])
    )
    (x * y).sum().backward()
    return seen


@program
def multi_hook_of_some(t: Any) -> Any:
    x, y = leaf(t) * 1, leaf(t) * 2
    seen = []
    t.autograd.graph.register_multi_grad_hook(
        [x, y], lambda gs: seen.append([None if g is None else g.clone() for g in gs])
    )
    for loss in (x * 2, y * 3, x * y, y):
        loss.sum().backward(retain_graph=True)
    t.autograd.grad((x * y).sum(), x, retain_graph=True)
    return seen


@program
def multi_hook_of_the_first(t: Any) -> Any:
    x, y = leaf(t) * 1, leaf(t) * 2
    seen = []
    t.autograd.graph.register_multi_grad_hook([x, y], lambda g: seen.append(g.clone()), mode="any")
    for loss in (x * 2, y * 3, x * y, y):
        loss.sum().backward(retain_graph=True)
    return seen


@program
def multi_hook_of_parts(t: Any) -> Any:
    first, second = (leaf(t) * 2).split(1)[:2]
    seen = []
    t.autograd.graph.register_multi_grad_hook(
        [first, second], lambda gs: seen.append([None if g is None else g.clone() for g in gs])
    )
    first.sum().backward()
    return seen


@program
def multi_hook_that_begins_another(t: Any) -> Any:
    x = leaf(t)
    first, second, seen = x * 2, x * 3, []

    def hook(gs: Any) -> None:
        seen.append([None if g is None else g.clone() for g in gs])
        if len(seen) < 3:
            with t.enable_grad():
                (first * 1).sum().backward(retain_graph=True)

    t.autograd.graph.register_multi_grad_hook([first, second], hook)
    (first + second).sum().backward(retain_graph=True)
    return seen, x.grad


@program
def names(t: Any) -> Any:
    x = leaf(t)
    y = x * 2
    node = (y.exp()).grad_fn
    return [
        type(y.grad_fn).__name__,
        node.name(),
        node.next_functions[0][0] is y.grad_fn,
        type(y.grad_fn.next_functions[0][0]).__name__,
        y.grad_fn.next_functions[0][0].variable is x,
        len(y.grad_fn.next_functions),
        isinstance(node, t.autograd.graph.Node),
        str((x + 1).grad_fn.name()),
    ]
