"""Grad modes and inference tensors."""

from __future__ import annotations

from typing import Any

from tests.compare.programs.registry import leaf, program


@program
def modes(t: Any) -> Any:
    x = leaf(t)
    out = []
    with t.no_grad():
        out.append((x * 2).requires_grad)
        with t.enable_grad():
            out.append((x * 2).requires_grad)
        out.append(t.ones(2, requires_grad=True).requires_grad)
    t.set_grad_enabled(False)
    out.append(t.is_grad_enabled())
    t.set_grad_enabled(True)
    with t.set_grad_enabled(False):
        out.append(t.is_grad_enabled())
    out.append(t.is_grad_enabled())

    @t.no_grad()  # type: ignore[untyped-decorator]
    def f() -> Any:
        return t.is_grad_enabled()

    @t.no_grad  # type: ignore[untyped-decorator]
    def g() -> Any:
        return t.is_grad_enabled()

    @t.no_grad()  # type: ignore[untyped-decorator]
    def gen() -> Any:
        yield t.is_grad_enabled()
        yield t.is_grad_enabled()

    inside = []
    for value in gen():
        inside += [value, t.is_grad_enabled()]
    return [*out, f(), g(), inside]


@program
def inference(t: Any) -> Any:
    x = leaf(t)
    out = []
    with t.inference_mode():
        y = x * 2
        out += [y.is_inference(), y.requires_grad, t.is_inference_mode_enabled()]
        out += [x.view(3).is_inference(), t.ones(2).is_inference(), t.is_grad_enabled()]
        with t.inference_mode(False):
            out += [t.is_grad_enabled(), t.ones(2).is_inference()]
        with t.enable_grad():
            out += [(x * 2).requires_grad]
        y.add_(1)
    return [*out, (y + 1).is_inference(), y.clone().is_inference()]


@program
def inference_saved(t: Any) -> Any:
    x = leaf(t)
    with t.inference_mode():
        y = t.ones(3, dtype=t.float64)
    return x * y


@program
def inference_unsaved(t: Any) -> Any:
    x = leaf(t)
    with t.inference_mode():
        y = t.ones(3, dtype=t.float64)
    (x + y).sum().backward()
    return x.grad


@program
def inference_written(t: Any) -> Any:
    with t.inference_mode():
        y = t.ones(3)
    y.add_(1)


@program
def inference_version(t: Any) -> Any:
    with t.inference_mode():
        y = t.ones(3)
    return y._version


@program
def inference_flag(t: Any) -> Any:
    with t.inference_mode():
        y = t.ones(3)
    y.requires_grad_()
