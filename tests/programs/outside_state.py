"""Programs about state that is no plain Python object's: hooks, custom operations, what is handed out."""

# Written as a user would, who annotates little.
# mypy: disable-error-code="has-type, no-untyped-call, type-arg, var-annotated"

from __future__ import annotations

import itertools
from typing import Any

import adjoint as ad
from adjoint import nn

from .playing import Wrap, changed, ones, program, ramp, tried

_NAMES = itertools.count()


@program
def hooks_of_each_argument(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        (x * 2).sum().backward()
        return x.grad.clone()

    run, seen = wrap(f), []
    for factor in (None, 3.0, None, 5.0):
        x = ad.ones(2, requires_grad=True)
        if factor is not None:
            x.register_hook(lambda g, factor=factor: g * factor)
        seen.append(tried(run, x))
    return seen


@program
def hook_of_several_gradients(wrap: Wrap) -> Any:
    a, b, sizes = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True), []

    def f(x: Any) -> Any:
        (a * b * x).sum().backward()
        return a.grad.clone()

    ad.autograd.graph.register_multi_grad_hook((a, b), lambda grads: sizes.append(len(grads)))
    run = wrap(f)
    return [tried(run, ones(2)) for _ in range(4)], sizes


@program
def hook_of_several_gradients_that_goes(wrap: Wrap) -> Any:
    a, b, seen = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True), []

    def f(x: Any) -> Any:
        hook = ad.autograd.graph.register_multi_grad_hook(
            (a, b), lambda grads: seen.append([g is None for g in grads])
        )
        (a * x).sum().backward()
        (a * b * x).sum().backward()
        hook.remove()
        return a.grad.clone()

    run = wrap(f)
    found = [tried(run, ones(2)) for _ in range(4)]
    (a * b).sum().backward()
    return found, seen


@program
def hook_of_several_gradients_from_outside_goes(wrap: Wrap) -> Any:
    a, b, seen = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True), []
    hook = ad.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads)))

    def f(x: Any) -> Any:
        (a * b * x).sum().backward()
        hook.remove()
        (a * b).sum().backward()
        return a.grad.clone()

    run = wrap(f)
    return [tried(run, ones(2)) for _ in range(3)], seen


@program
def tensors_exchanged(wrap: Wrap) -> Any:
    layer, other = nn.Linear(2, 1, bias=False), nn.Parameter(ad.full((1, 2), 5.0))
    layer.weight.data.fill_(1.0)
    return changed(wrap, lambda x: layer(x), lambda: ad.utils.swap_tensors(layer.weight, other))


@program
def tensor_made_for_inference(wrap: Wrap) -> Any:
    w = ad.ones(2, requires_grad=True)
    with ad.inference_mode():
        frozen = ones(2)
    run = wrap(lambda x: w * x)
    found = [tried(run, x) for x in (ones(2), frozen, ones(2), frozen)]
    with ad.inference_mode():
        return [*found, *[tried(run, x).tolist() for x in (ones(2), frozen)]]


@program
def constant_as_text(wrap: Wrap) -> Any:
    said = []

    def f(x: Any) -> Any:
        said.append(f"{ad.tensor([1.23456])} {x * 2}")
        return x

    run = wrap(f)
    run(ones(1))
    run(ones(1) * 3)
    ad.set_printoptions(precision=2)
    try:
        run(ones(1))
    finally:
        ad.set_printoptions(profile="default")
    return said


@program
def interrupt_of_its_own(wrap: Wrap) -> Any:
    state, seen = {"n": 0}, []

    def f(x: Any) -> Any:
        state["n"] += 1
        if state["n"] == 3:
            raise KeyboardInterrupt
        return x * state["n"]

    run = wrap(f)
    for _ in range(5):
        try:
            seen.append(run(ones(2)))
        except KeyboardInterrupt as error:
            seen.append(type(error))
    return seen, state


@program
def pull_back_that_leaves(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        return ad.func.vjp(lambda z: z**3, x)

    run, seen = wrap(f), []
    for factor in (1.0, 2.0):
        given = tried(run, ramp(3) * factor)
        seen.append(given if isinstance(given, Exception) else given[1](ones(3)))
    return seen


def operation(fn: Any, mutates: tuple[str, ...] = ()) -> Any:
    return ad.library.custom_op(f"programs::of{next(_NAMES)}", fn, mutates_args=mutates)


@program
def operation_that_writes(wrap: Wrap) -> Any:
    factor, calls = {"value": 2.0}, [0]

    def scale(x: ad.Tensor) -> None:
        calls[0] += 1
        x.mul_(factor["value"] + calls[0])

    scaled = operation(scale, ("x",))

    def f(x: Any) -> Any:
        y = x.clone()
        scaled(y)
        return y

    return changed(wrap, f, lambda: factor.update(value=3.0)), calls


@program
def derivative_of_an_operation(wrap: Wrap) -> Any:
    factor, calls = {"value": 2.0}, [0]
    doubled = operation(_doubled)
    doubled.register_fake(ad.empty_like)

    def backward(ctx: Any, g: Any) -> Any:
        calls[0] += 1
        return g * factor["value"]

    doubled.register_autograd(backward)

    def f(x: Any) -> Any:
        x = x.detach().requires_grad_()
        doubled(x).sum().backward()
        return x.grad

    return changed(wrap, f, lambda: factor.update(value=3.0)), calls


def _doubled(x: ad.Tensor) -> ad.Tensor:
    return x * 2


@program
def module_that_answers_to_any_name(wrap: Wrap) -> Any:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.extra = {"scale": 1.0}

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return self.extra[name]

        def forward(self, x: Any) -> Any:
            return x * self.scale

    module = Scaled()
    return changed(wrap, module, lambda: module.extra.update(scale=2.0))


@program
def buffer_replaced_in_functional_call(wrap: Wrap) -> Any:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", ad.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count = self.count + 1
            return x * self.count

    module, state = Counted(), {"count": ad.zeros(1)}
    run = wrap(lambda state, x: ad.func.functional_call(module, state, (x,)))
    return [tried(run, state, ones(2)) for _ in range(3)], state, module.count
