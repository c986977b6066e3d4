"""Checkpoints, forward mode, gradcheck, anomalies."""

from __future__ import annotations

import importlib
from typing import Any

from tests.compare.programs.custom import custom_function, square_forward
from tests.compare.programs.registry import leaf, program


def _checkpoint(t: Any) -> Any:
    if t.__name__ == "torch":
        return importlib.import_module("torch.utils.checkpoint").checkpoint
    from adjoint.utils.checkpoint import checkpoint as ours

    return ours


@program
def checkpointed(t: Any) -> Any:
    checkpoint = _checkpoint(t)
    out = []
    for reentrant in (True, False):
        x, w = leaf(t), leaf(t, 3, 4, 5)
        calls: list[int] = []

        def block(x: Any, w: Any = w, calls: Any = calls) -> Any:
            calls.append(1)
            h = (x * w).sin()
            return h * h, h.exp()

        a, b = checkpoint(block, x, use_reentrant=reentrant)
        (a.sum() * b.sum()).backward()
        out += [x.grad, w.grad, len(calls)]
    return out


@program
def checkpoint_grad_reentrant(t: Any) -> Any:
    x = leaf(t)
    y = _checkpoint(t)(lambda x: x * x, x, use_reentrant=True)
    t.autograd.grad(y.sum(), x)


@program
def checkpoint_grad(t: Any) -> Any:
    x = leaf(t)
    y = _checkpoint(t)(lambda x, k: (x * x * k).exp() / 1e6, x, k=0.5, use_reentrant=False)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return g, t.autograd.grad(g.sum(), x)


@program
def forward_mode(t: Any) -> Any:
    if t.__name__ == "torch":
        fw = importlib.import_module("torch.autograd.forward_ad")
    else:
        fw = t.autograd.forward_ad
    x = leaf(t)
    v = t.ones(3, dtype=t.float64)
    with fw.dual_level():
        d = fw.make_dual(x, v)
        y = (d * d).sin()
        y[0] = d[1] * 2
        p, tangent = fw.unpack_dual(y)
        none = fw.unpack_dual(x.detach() * 2).tangent
        gone = fw.unpack_dual(d.detach()).tangent
        (g,) = t.autograd.grad(tangent.sum(), x)
    return p, tangent, none is None, gone is None, g


@program
def forward_mode_outside(t: Any) -> Any:
    if t.__name__ == "torch":
        fw = importlib.import_module("torch.autograd.forward_ad")
    else:
        fw = t.autograd.forward_ad
    fw.make_dual(t.ones(2), t.ones(2))


@program
def gradchecks(t: Any) -> Any:
    x, y = leaf(t), leaf(t, 4, 5, 6)
    check, twice = t.autograd.gradcheck, t.autograd.gradgradcheck
    F = custom_function(t, {"forward": square_forward, "backward": lambda ctx, g: g * 3})
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    return [
        check(lambda x, y: (x * y).sin(), (x, y), check_forward_ad=True),
        twice(lambda x, y: (x * y).sin(), (x, y)),
        check(F.apply, (x,), raise_exception=False),
        check(lambda z: (z * z).exp() / 1e3, (z,)),
    ]


@program
def gradcheck_fails(t: Any) -> Any:
    F = custom_function(t, {"forward": square_forward, "backward": lambda ctx, g: g * 3})
    t.autograd.gradcheck(F.apply, (leaf(t),))


@program
def gradcheck_untracked(t: Any) -> Any:
    t.autograd.gradcheck(lambda x: x * 2, (t.ones(2, dtype=t.float64),))


@program
def anomaly_nan(t: Any) -> Any:
    with t.autograd.detect_anomaly():
        x = leaf(t, 0.0)
        (x / x * x).sum().backward()


@program
def set_data(t: Any) -> Any:
    x = leaf(t)
    x.data = t.ones(2, dtype=t.float64) * 4
    (x * x).sum().backward()
    y = t.zeros(2)
    z = t.ones(2)
    y.data = z
    z.add_(1)
    return x, x.grad, x.is_leaf, y


@program
def autograd_functional_strict(t: Any) -> Any:
    t.autograd.functional.jacobian(lambda x: t.ones(2), leaf(t), strict=True)


@program
def mutation_allowed(t: Any) -> Any:
    with t.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(t)
        a = x.clone()
        b = a * a
        c = b.exp()
        a.mul_(2)
        c.zero_()
        b.sin_()
        (b + a * a).sum().backward()
    return x.grad
