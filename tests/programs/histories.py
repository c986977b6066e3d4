"""Programs about tensors with a history: backward inside through it, writes after values were saved."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import adjoint as ad

from .playing import Wrap, ones, program, ramp, tried


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or of an error how it begins: nodes are called otherwise when compiled."""
    given = tried(fn, *args)
    return str(given)[:40] if isinstance(given, RuntimeError) else given


def square_backward(x: Any) -> None:
    (x * x).sum().backward()


@program
def arguments_with_a_history(wrap: Wrap) -> Any:
    w = ramp(3).requires_grad_()
    run = wrap(square_backward)
    out = []
    for x in (w * 2, w * 3, (w + 1) * w, w.exp(), w * 2, w + 0, w.sum() * w):
        run(x)
        out.append(w.grad.clone())
    return out


@program
def arguments_with_a_history_of_other_leaves(wrap: Wrap) -> Any:
    first, second = ones(3).requires_grad_(), ones(3).requires_grad_()
    run = wrap(square_backward)
    out = []
    for leaf in (first, first, second, first):
        run(leaf * 2)
        out.append([None if t.grad is None else t.grad.clone() for t in (first, second)])
    return out


@program
def history_used_up_by_an_earlier_call(wrap: Wrap) -> Any:
    v = ones(3).requires_grad_()
    s = types.SimpleNamespace(h=ones(3))

    def f(x: Any) -> None:
        s.h = s.h + x * v
        (x * v).sum().backward()

    run = wrap(f)
    out = [outcome(run, ones(3))]
    return [*out, *[(outcome(run, s.h), v.grad.clone()) for _ in range(3)], s.h]


@program
def argument_used_up_from_outside(wrap: Wrap) -> Any:
    w = ones(3).requires_grad_()
    run = wrap(square_backward)
    x = w * 2
    out = [outcome(run, x), outcome(run, x), w.grad.clone()]
    x = w * 2
    x.sum().backward()
    return [*out, outcome(run, x), w.grad]


@program
def history_that_is_retained(wrap: Wrap) -> Any:
    w = ramp(3).requires_grad_()
    x = w.exp()
    run = wrap(lambda: (x * x).sum().backward(retain_graph=True))
    out = []
    for _ in range(3):
        run()
        out.append(w.grad.clone())
    x.sum().backward()
    return [*out, outcome(run), w.grad]


@program
def gradients_asked_for_through_a_history(wrap: Wrap) -> Any:
    w = ramp(3).requires_grad_()
    run = wrap(lambda x: ad.autograd.grad((x * x).sum(), [w])[0])
    return [run(x) for x in (w * 2, w * 5, w.sin())], w.grad


@program
def history_that_saves_nothing(wrap: Wrap) -> Any:
    w = ramp(2, 3).requires_grad_()
    s = types.SimpleNamespace(tied=w.t())
    run = wrap(lambda x: (x @ s.tied).sum().backward())
    out = []
    for change in (None, None, (w * 2).t(), w.flip(0).t(), None):
        if change is not None:
            s.tied = change
        run(ones(1, 3))
        out.append(w.grad.clone())
    return out


@program
def history_with_a_hook(wrap: Wrap) -> Any:
    w = ramp(3).requires_grad_()
    s = types.SimpleNamespace(x=w + 1)
    run = wrap(lambda: (s.x * 2).sum().backward())
    run()
    out = [w.grad.clone()]
    s.x.register_hook(lambda g: g * 5)
    run()
    return [*out, w.grad.clone()]


@program
def history_of_another_compiled_function(wrap: Wrap) -> Any:
    w = ramp(3).requires_grad_()
    features, step = wrap(lambda k: w * k), wrap(square_backward)
    out = []
    for k in (1.0, 2.0, 3.0):
        step(features(ones(3) * k))
        out.append(w.grad.clone())
    x = features(ones(3))
    return [*out, outcome(step, x), outcome(step, x), w.grad]


def written_then_saved(wrap: Wrap, write: Callable[[Any], Any], after: Callable[[Any], Any]) -> Any:
    """A loss for which a parameter is saved after a write, and backward after another."""
    w, x = ramp(3).requires_grad_(), ones(3).requires_grad_()

    def f(x: Any) -> Any:
        write(w)
        return (w * x).sum()

    loss = wrap(f)(x)
    after(w)
    return outcome(loss.backward), x.grad, w


def counted(w: Any) -> None:
    with ad.no_grad():
        w.add_(1)


def uncounted(w: Any) -> None:
    w.data.mul_(2)


@program
def saved_after_a_write_and_changed_by_data(wrap: Wrap) -> Any:
    return written_then_saved(wrap, counted, uncounted)


@program
def saved_after_a_write_by_data_and_changed_by_data(wrap: Wrap) -> Any:
    return written_then_saved(wrap, uncounted, uncounted)


@program
def saved_after_a_write_and_written(wrap: Wrap) -> Any:
    return written_then_saved(wrap, counted, counted)


@program
def saved_after_a_write_by_data_and_written(wrap: Wrap) -> Any:
    return written_then_saved(wrap, uncounted, counted)


@program
def saved_after_a_write_and_left_alone(wrap: Wrap) -> Any:
    return written_then_saved(wrap, counted, lambda w: None)


@program
def saved_argument_after_a_write(wrap: Wrap) -> Any:
    w = ramp(2, 3).requires_grad_()

    def f(x: Any) -> Any:
        x.add_(1)
        return (w * x).sum()

    run = wrap(f)
    out = []
    for after in (lambda x: None, uncounted, counted):
        x = ones(4, 3)[::2]
        loss = run(x)
        after(x)
        out.append((outcome(loss.backward), w.grad.clone(), x))
    return out


@program
def saved_view_after_a_write(wrap: Wrap) -> Any:
    w, b = ramp(3).requires_grad_(), ramp(2, 3)

    def f() -> Any:
        b.mul_(2)
        return (w * b[1]).sum()

    run = wrap(f)
    out = []
    for after in (uncounted, counted):
        loss = run()
        after(b)
        out.append((outcome(loss.backward), w.grad.clone()))
    return out


@program
def kept_state_copied_from_what_was_saved(wrap: Wrap) -> Any:
    h, w = ones(3), ramp(3).requires_grad_()

    def f() -> Any:
        n = (h.clone() * w).tanh()
        h.copy_(n.detach())
        return (n * n).sum()

    run = wrap(f)
    losses = run() + run() + run()
    h.data.add_(1)
    losses.backward()
    return w.grad, h


def copied_then_saved(wrap: Wrap, body: Callable[[Any, Any, Any], Any]) -> Any:
    """Losses of an argument and a copy of it, for which one of them is saved, and writes to each."""
    out = []
    for number in (0, 1):
        for after in (uncounted, counted, lambda t: None):
            kept, w, x = ones(3), ramp(3).requires_grad_(), ones(3)
            loss = wrap(body)(x, kept, w)
            after((x, kept)[number])
            out.append((outcome(loss.backward), w.grad))
    return out


@program
def saved_copy_of_an_argument(wrap: Wrap) -> Any:
    return copied_then_saved(wrap, lambda x, kept, w: (kept.copy_(x) * w).sum())


@program
def saved_argument_that_was_copied(wrap: Wrap) -> Any:
    return copied_then_saved(
        wrap, lambda x, kept, w: (kept.copy_(x).detach().sum(), x * w)[1].sum()
    )


@program
def saved_copy_made_inside(wrap: Wrap) -> Any:
    return copied_then_saved(wrap, lambda x, kept, w: (ad.zeros(3).copy_(x) * w).sum())


@program
def views_and_others_that_change_shape(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        x.resize_(1, 3)

    run = wrap(f)
    out = []
    for x in (ramp(6).view(2, 3), ramp(2, 3), ramp(2, 3), ramp(6).view(2, 3)):
        run(x)
        out.append((x, x._is_view(), tuple(x.shape)))
        x.mul_(2)
        out.append((x, x.is_leaf))
    return out
