"""Random programs about tensors that outlive calls, each as two worlds that start alike.

Aliases of results, arguments and state, flags and places on the tape, views of leaves, writes
through views, `.data` and `detach`, gradients that are there or not, losses kept for later.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

HEAD = """
import adjoint as ad

class Box:
    pass

def start():
    S = Box()
    S.w = (ad.arange(6.0).reshape(2, 3) / 4).requires_grad_()
    S.v = (ad.arange(3.0) / 2 + 1).requires_grad_()
    S.h = ad.ones(2, 3)
    S.b = ad.arange(6.0).reshape(2, 3)
    S.view = S.b[1]
    S.t = S.b.t()
    S.row = ad.ones(1, 3).expand(2, 3)
    S.base = ad.arange(4.0)
    S.leaf = S.base[1:].requires_grad_()
    S.log = []
    S.aux = None
    S.flag = True
    S.n = 2
    S.pair = (ad.zeros(3), ad.ones(3))
    S.table = {"a": ad.zeros(2, 3)}
    return S
"""


class Writer:
    """Writes one program: a function `f(S, x, y)`, and changes between its calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["x", "y"]
        self.count = 0

    def pick(self, *options: str) -> str:
        """One of the options."""
        return self.random.choice(options)

    def wide(self) -> str:
        """An expression for a tensor of shape (2, 3)."""
        return self.pick(
            "x", "y", "S.w", "S.h", "S.b", "S.row", "S.t.t()", "S.table['a']", "x.detach()",
            "S.w.detach()", "S.w.data", "(x * 2)", "(x + S.h)", "(S.w * y)", "(S.h * S.n)", "x.clone()",
            "S.b.view(2, 3)", "x[:]", "x.t().t()", "x.t().contiguous().t()", "(x * S.v)",
            "S.v.expand(2, 3)", "S.leaf.expand(2, 3)", "y.reshape(2, 3)", "S.w.sigmoid()",
            "ad.zeros(2, 3)", "ad.where(x > 1, x, y)", "x.contiguous()",
            *[n for n in self.names if n.startswith("a")] * 3,
        )  # fmt: skip

    def line(self) -> str:
        """An expression for a tensor of shape (3,)."""
        return self.pick(
            "S.v", "S.view", "S.leaf", "S.pair[0]", "S.pair[1]", f"{self.wide()}[0]",
            f"{self.wide()}[1]", f"{self.wide()}.sum(0)", "S.leaf.detach()", "S.view.clone()",
            "S.base[1:]", f"{self.wide()}.t()[:, 0]", "S.v.data", "S.v[:]", "S.leaf.view(3)",
            f"{self.wide()}.diagonal()[0].expand(3)", "S.b[S.n % 2]", "x[ad.tensor(1)]",
            *[n for n in self.names if n.startswith("l")] * 3,
        )  # fmt: skip

    def number(self) -> str:
        """An expression for a 0-d tensor."""
        return self.pick(f"{self.wide()}.sum()", f"({self.line()} * {self.line()}).sum()",
                         f"{self.wide()}.mean()", f"{self.wide()}[0, 1]")  # fmt: skip

    def name(self, kind: str) -> str:
        """A new variable."""
        self.count += 1
        self.names.append(f"{kind}{self.count}")
        return self.names[-1]

    def statement(self) -> list[str]:
        """A statement, as lines."""
        w, line, n = self.wide(), self.line(), self.number()
        v, u = self.wide(), self.line()
        target = self.pick("x", "y", "S.h", "S.b", "S.view", "S.t", "S.base", "S.row",
                           "S.pair[0]", "S.w.data", "S.table['a']", *self.names[2:] * 2)  # fmt: skip
        write = self.pick(f"{target}.mul_(2)", f"{target}.add_(1)", f"{target}[0] = 3",
                          f"{target}.copy_({target} * 2)", f"{target}.zero_()",
                          f"{target}[..., 1:].add_(1)", f"{target}.fill_(S.n)",
                          f"{target}.add_({target})", f"{target}[-1:].mul_(3)")  # fmt: skip
        graded = self.pick(f"{target}.mul_({line})", f"{target}.add_(S.v)", f"{target}[-1] += 1")
        lines = self.random.choice([
            [f"NEW_a = {w}"], [f"NEW_a = {w} * {v}"],
            [f"NEW_l = {line}"], [f"NEW_l = {line} + {u}"],
            [f"S.h = {w}"], [f"S.h = S.h + {w}"], [f"S.b = {w} + 0"], [f"S.view = {line}"],
            ["with ad.no_grad():", f"    {write}"], ["with ad.no_grad():", f"    {write}"],
            [write], [graded], [f"S.aux = {n}"], [f"S.log.append({w})"], [f"S.log.append({line})"],
            [f"S.log.append({n})"], [f"out.append({w})"], [f"out.append({line})"],
            [f"out.append({n})"], [f"({n} + {self.number()}).backward()"],
            ["S.w.grad = None"], ["S.v.grad = None; S.w.grad = None"],
            ["if S.w.grad is not None:", "    out.append(S.w.grad)"],
            ["if S.v.grad is not None:", "    S.v.grad.zero_()"],
            [f"S.pair = (S.pair[1], {line})"], ["S.pair = S.pair[::-1]"],
            [f"S.table['b'] = {w}"], [f"S.table['a'] = {w}"], ["S.old = S.h; S.h = S.h * 2",
             "out.append(S.old)"], [f"S.{self.pick('h', 'b')}.requires_grad_({self.pick('True', 'False')})"],
            [f"S.w.data = {w}.detach() * 1"], [f"out.append({w} is S.h)"],
            [f"out.append(({w}.requires_grad, {line}.is_leaf, {w}.grad_fn is None))"],
            ["if S.flag:", f"    S.h = {w}", "else:", f"    out.append({line})"],
            ["S.n += 1"], [f"NEW_a = {w}.detach().requires_grad_()"],
            [f"S.leaf.data.add_({self.pick('1', 'S.n')})"], [f"S.aux = (S.w * {w}).mean(); out.append(S.aux)"],
        ])  # fmt: skip
        for kind in ("a", "l"):
            if lines[0].startswith(f"NEW_{kind}"):
                lines = [lines[0].replace(f"NEW_{kind}", self.name(kind), 1)]
        return lines

    def source(self) -> str:
        """The program."""
        lines: list[str] = []
        for _ in range(self.random.randrange(2, 7)):
            lines += self.statement()
        body = "\n".join("    " + line for line in lines)
        return f"{HEAD}\ndef f(S, x, y):\n    out = []\n{body}\n    return out\n"

    def change(self) -> str:
        """A change from outside."""
        return self.pick(
            "pass", "pass", "S.flag = not S.flag", "S.h = ad.ones(2, 3) * 5", "S.w.grad = None",
            "S.w.grad = ad.ones(2, 3)", "S.w.requires_grad_(False)", "S.w.requires_grad_()",
            "S.b = S.h", "S.view = S.h[0]", "S.n = 5", "S.log.clear()", "S.w.data.mul_(2)",
            "S.v.grad = None", "S.h = S.h.detach().t().contiguous().t()",
            "S.b = S.b.detach().clone()", "S.pair = (S.pair[0].detach(), S.h[1].detach())",
        )  # fmt: skip

    def arguments(self) -> str:
        """The arguments of a call."""
        return self.pick(
            "(ad.ones(2, 3), ad.ones(2, 3) * 2)", "(ad.ones(2, 3), ad.ones(2, 3) * 2)",
            "(ad.ones(2, 3).requires_grad_(), ad.ones(2, 3))", "(S.h, ad.ones(2, 3))",
            "(S.w, S.h)", "(z := ad.ones(2, 3), z)", "(ad.ones(3, 2).t(), ad.ones(2, 3))",
            "(ad.ones(1, 3).expand(2, 3), ad.ones(2, 3))", "(S.b, S.b)",
            "((ad.ones(2, 3).requires_grad_() * 2), ad.ones(2, 3))",
        )  # fmt: skip


def world(source: str) -> dict[str, Any]:
    """A world in which the program's function can be called."""
    scope: dict[str, Any] = {"__name__": "world"}
    exec(compile(source, "<program>", "exec"), scope)
    scope["S"] = scope["start"]()
    return scope


def _tensor(t: Any, seen: dict[int, int], memory: dict[int, int]) -> Any:
    held = t.detach()
    place = memory.setdefault(held.untyped_storage().data_ptr(), len(memory))
    grad = None if t.grad_fn is not None or t.grad is None else shape(t.grad, seen, memory)
    numbers = np.round(held.to(ad.float64).numpy(), 4).tolist()
    return ("tensor", numbers, place, t.requires_grad, t.grad_fn is None, t.is_leaf, grad)


def shape(value: Any, seen: dict[int, int], memory: dict[int, int]) -> Any:
    """A value for comparison with another world's: contents, sharing, place on the tape."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, ad.Tensor):
        return _tensor(value, seen, memory)
    if isinstance(value, dict):
        return [(k, shape(v, seen, memory)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shape(v, seen, memory) for v in value]
    if isinstance(value, BaseException):
        return "RuntimeError" if isinstance(value, RuntimeError) else type(value).__name__
    return shape(vars(value), seen, memory)


def gradients(scope: dict[str, Any], result: Any) -> Any:
    """What a loss made of all that is on the tape gives to the leaves."""
    S = scope["S"]
    held = [*result, *S.log, *vars(S).values()] if isinstance(result, list) else []
    kept = {id(t): t for t in held if isinstance(t, ad.Tensor) and t.grad_fn is not None}
    leaves = [t for t in (S.w, S.v, S.leaf) if t.requires_grad and t.is_leaf]
    if not kept or not leaves:
        return None
    try:
        total = sum((t * 0.5).sum() for t in kept.values())
        found = ad.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)
    except RuntimeError:
        return "refused"
    return [None if g is None else np.round(g.to(ad.float64).numpy(), 3).tolist() for g in found]


def state(scope: dict[str, Any], given: tuple[Any, ...], result: Any) -> Any:
    """What a call gave and left behind."""
    seen: dict[int, int] = {}
    memory: dict[int, int] = {}
    return [shape(x, seen, memory) for x in (given, result, scope["S"])], gradients(scope, result)


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or the exception it raises."""
    try:
        return fn(*args)
    except Exception as error:
        return error.with_traceback(None)
