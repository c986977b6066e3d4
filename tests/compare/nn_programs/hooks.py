"""Hooks of modules: order, replacement, errors."""

from __future__ import annotations

import warnings
from typing import Any

from tests.compare.nn_programs import data, fill, message, program


def net(t: Any) -> Any:
    return fill(t, t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Linear(3, 2)))


@program
def order(t: Any) -> Any:
    m, log = net(t), []
    for name, layer in (("net", m), ("0", m[0]), ("1", m[1])):
        layer.register_forward_pre_hook(lambda m, a, n=name: log.append(f"pre {n}"))
        layer.register_forward_pre_hook(lambda m, a, n=name: log.append(f"pre0 {n}"), prepend=True)
        layer.register_forward_hook(lambda m, a, o, n=name: log.append(f"fwd {n}"))
        layer.register_forward_hook(lambda m, a, o, n=name: log.append(f"fwd0 {n}"), prepend=True)
        layer.register_full_backward_pre_hook(lambda m, g, n=name: log.append(f"bpre {n}"))
        layer.register_full_backward_hook(lambda m, i, o, n=name: log.append(f"bwd {n}"))
        layer.register_full_backward_hook(
            lambda m, i, o, n=name: log.append(f"bwd0 {n}"), prepend=True
        )
    x = data(t, 1, 2).requires_grad_()
    m(x).sum().backward()
    return log, x.grad


@program
def gradients_that_are_there(t: Any) -> Any:
    """Which parameters have gradients when hooks run: also where one is used twice."""
    log: list[Any] = []

    def note(name: str) -> Any:
        return lambda m, i, o: log.append((name, [p.grad is not None for p in m.parameters()]))

    shared = fill(t, t.nn.Linear(2, 2))
    m = t.nn.Sequential(shared, net(t), t.nn.ReLU(), shared)
    for name, layer in m.named_modules():
        layer.register_full_backward_hook(note(name))
    m[1][0].weight.register_post_accumulate_grad_hook(lambda p: log.append("post 1.0"))
    m[1][1].bias.register_hook(lambda g: log.append("hook 1.1"))
    for x in (data(t, 3, 2).requires_grad_(), data(t, 3, 2)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns where no input wants a gradient
            m(x).sum().backward()
        m.zero_grad()
    return log


@program
def replacing(t: Any) -> Any:
    m = net(t)
    m[0].register_forward_pre_hook(lambda m, a: a[0] * 2)
    m[0].register_forward_hook(lambda m, a, o: o + a[0].sum())
    m[1].register_full_backward_pre_hook(lambda m, g: (g[0] * 3,))
    m[1].register_full_backward_hook(lambda m, i, o: (i[0] + o[0].sum(),))
    x = data(t, 2, 2).requires_grad_()
    out = m(x)
    out.sum().backward()
    return out, x.grad, m[0].weight.grad, m[1].weight.grad


@program
def with_kwargs(t: Any) -> Any:
    class Scaled(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, *, by: float = 1.0) -> Any:
            return x * by

    m, log = Scaled(), []
    m.register_forward_pre_hook(lambda m, a, k: (a, {"by": k["by"] + 1}), with_kwargs=True)
    handle = m.register_forward_hook(lambda m, a, k, o: log.append(dict(k)), with_kwargs=True)
    m.register_forward_hook(lambda m, a, o: o + 1)
    out = m(t.ones(2), by=2.0)
    handle.remove()
    m(t.ones(2), by=2.0)
    bad = Scaled()
    bad.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    return out, log, message(lambda: bad(t.ones(1)))


@program
def always_call(t: Any) -> Any:
    class Fails(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    m, log = Fails(), []
    m.register_forward_hook(lambda m, a, o: log.append("plain"))
    m.register_forward_hook(lambda m, a, o: log.append(("always", o)), always_call=True)
    return message(lambda: m(t.ones(1))), log


@program
def no_input_gradient(t: Any) -> Any:
    m, log = net(t), []
    m.register_full_backward_hook(lambda m, i, o: log.append((i[0] is None, o[0].shape[0])))
    m(data(t, 1, 2)).sum().backward()
    other = net(t)
    other.register_full_backward_hook(lambda m, i, o: (o[0],))
    return log, message(lambda: other(data(t, 1, 2)).sum().backward())


@program
def tuples_and_others(t: Any) -> Any:
    class Split(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, flag: Any, y: Any) -> Any:
            return x * 2, "text", y * 3

    m, log = Split(), []
    m.register_full_backward_hook(
        lambda m, i, o: log.append(([g is None for g in i], [g is None for g in o]))
    )
    x, y = data(t, 2).requires_grad_(), data(t, 2)
    out = m(x, True, y)
    out[0].sum().backward()
    wrong = Split()
    wrong.register_full_backward_hook(lambda m, i, o: (i[0],))
    z = data(t, 2).requires_grad_()
    return log, x.grad, message(lambda: wrong(z, True, y)[0].sum().backward())


@program
def mixed_kinds(t: Any) -> Any:
    a, b = net(t), net(t)
    a.register_backward_hook(lambda m, i, o: None)
    b.register_full_backward_hook(lambda m, i, o: None)
    return [
        message(lambda: a.register_full_backward_hook(lambda m, i, o: None)),
        message(lambda: b.register_backward_hook(lambda m, i, o: None)),
    ]


@program
def older_backward_hook(t: Any) -> Any:
    m, log = t.nn.Identity(), []

    class Double(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x * 2

    m = Double()
    m.register_backward_hook(lambda m, i, o: log.append((i[0], o[0])))
    x = data(t, 2).requires_grad_()
    m(x).sum().backward()
    return log


@program
def global_hooks(t: Any) -> Any:
    g, log = t.nn.modules.module, []
    handles = [
        g.register_module_forward_pre_hook(lambda m, a: log.append(f"pre {type(m).__name__}")),
        g.register_module_forward_hook(lambda m, a, o: log.append(f"fwd {type(m).__name__}")),
        g.register_module_full_backward_pre_hook(
            lambda m, o: log.append(f"bpre {type(m).__name__}")
        ),
        g.register_module_full_backward_hook(lambda m, i, o: log.append(f"bwd {type(m).__name__}")),
        g.register_module_parameter_registration_hook(lambda m, n, p: log.append(f"param {n}")),
        g.register_module_buffer_registration_hook(lambda m, n, p: log.append(f"buffer {n}")),
        g.register_module_module_registration_hook(lambda m, n, p: log.append(f"module {n}")),
    ]
    try:
        m = net(t)
        m.register_buffer("b", t.ones(1))
        m(data(t, 1, 2)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    n = len(log)
    m(data(t, 1, 2))
    return log, len(log) == n


@program
def handles(t: Any) -> Any:
    m, log = net(t), []
    with m.register_forward_hook(lambda m, a, o: log.append(1)):
        m(data(t, 1, 2))
    m(data(t, 1, 2))
    return log, len(m._forward_hooks)
