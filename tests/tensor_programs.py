"""Random programs about tensors that outlive calls, each as two worlds that start alike.

Aliases of results, arguments and state, flags and places on the tape, views of leaves, writes
through views, `.data` and `detach`, gradients that are there or not, losses kept for later; shapes
and data changed in place, parameters and buffers of modules exchanged, hooks, modes, optimizers,
and tensors in lists, dicts, dataclasses and named tuples.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

HEAD = """
import collections
import dataclasses
import adjoint as ad

class Box:
    pass

@dataclasses.dataclass
class Held:
    t: object
    n: int = 0

Two = collections.namedtuple("Two", "a b")

class Layer(ad.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = ad.nn.Parameter(ad.arange(3.0) / 3)
        self.register_buffer("mean", ad.zeros(3))

    def forward(self, x):
        return x * self.weight + self.mean

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
    S.m = Layer()
    S.opt = ad.optim.SGD([S.v], lr=0.5, momentum=0.5)
    S.held = Held(ad.ones(2, 3))
    S.two = Two(ad.ones(3), S.b[0])
    S.list = [ad.zeros(3), ad.ones(3) * 2]
    S.sq = ad.arange(9.0).reshape(3, 3)
    S.hooked = 0
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
            "ad.zeros(2, 3)", "ad.where(x > 1, x, y)", "x.contiguous()", "S.m(x)", "S.held.t",
            "S.sq[:2]", "S.sq.t()[1:]", "ad.stack([S.list[0], S.v])", "x.flip(0)", "x.exp()",
            "x.view_as(x)", "ad.cat([x[:1], y[1:]])", "x.expand_as(y)", "(x.t() * 2).t()",
            *[n for n in self.names if n.startswith("a")] * 3,
        )  # fmt: skip

    def line(self) -> str:
        """An expression for a tensor of shape (3,)."""
        return self.pick(
            "S.v", "S.view", "S.leaf", "S.pair[0]", "S.pair[1]", f"{self.wide()}[0]",
            f"{self.wide()}[1]", f"{self.wide()}.sum(0)", "S.leaf.detach()", "S.view.clone()",
            "S.base[1:]", f"{self.wide()}.t()[:, 0]", "S.v.data", "S.v[:]", "S.leaf.view(3)",
            f"{self.wide()}.diagonal()[0].expand(3)", "S.b[S.n % 2]", "x[ad.tensor(1)]",
            "S.two.a", "S.two.b", "S.list[0]", "S.list[-1]", "S.m.weight", "S.m.mean", "S.sq[0]",
            "S.sq.diagonal()", "S.m.weight.data", "S.m.mean[:]", "S.sq.t()[1]",
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
                           "S.pair[0]", "S.w.data", "S.table['a']", "S.held.t", "S.two.b", "S.sq",
                           "S.list[0]", "S.m.mean", "S.m.weight.data", *self.names[2:] * 2)  # fmt: skip
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
            *self.rarer(w, v, line, u, n),
        ])  # fmt: skip
        for kind in ("a", "l"):
            if lines[0].startswith(f"NEW_{kind}"):
                lines = [lines[0].replace(f"NEW_{kind}", self.name(kind), 1)]
        return lines

    def rarer(self, w: str, v: str, line: str, u: str, n: str) -> list[list[str]]:
        """Statements about shapes, data, modules, hooks, modes and containers."""
        reshaped = self.pick("S.h", "S.sq", "S.held.t", "x", "S.list[0]", *self.names[2:])
        shape = self.pick("t_()", "unsqueeze_(0).squeeze_(0)", "swapaxes_(0, -1)", "unsqueeze_(-1).squeeze_(-1)",
                          "transpose_(0, -1).transpose_(0, -1)", "resize_(1, 3)", "squeeze_()", "swapdims_(0, 1)")  # fmt: skip
        leaf = self.pick("S.w", "S.v", "S.m.weight", "S.leaf")
        return [
            [f"{reshaped}.{shape}"], [f"{reshaped}.{shape}; out.append({reshaped}.sum())"],
            [f"S.h.set_({w}.detach())"], [f"S.list[0].set_({line}.detach())"],
            [f"S.h.data = {w}.detach()"], [f"S.v.data = {line}.detach() * 1"], [f"S.m.weight.data = {line}.detach()"],
            [f"S.view.data = {line}.detach(); out.append(S.view)"], ["S.held.t.data = S.held.t.data.double()"],
            [f"S.m.weight = ad.nn.Parameter({line}.detach() + 1)"], [f"S.m.mean = {line}.detach()"],
            [f"S.m.mean.mul_(0.5).add_({line}.detach())"], [f"S.held.t = {w}"], [f"S.held = Held({w}, S.n)"],
            [f"S.two = Two({line}, S.two.a)"], ["S.two = S.two._replace(a=S.two.b)"], [f"S.list[0] = {line}"],
            [f"S.list.append(S.list.pop(0) + {line})"], ["S.list.reverse()", "out.append(S.list[0])"],
            ["S.list[0], S.list[1] = S.list[1], S.list[0]"], [f"{leaf}.grad = None"],
            [f"{leaf}.grad = ad.ones_like({leaf})"], [f"if {leaf}.grad is not None:", f"    {leaf}.grad.mul_(2)"],
            [f"if {leaf}.grad is not None:", f"    out.append({leaf}.grad[:1])", f"    {leaf}.grad += 1"],
            ["S.opt.zero_grad()", f"(S.v * {line}).sum().backward()", "S.opt.step()"],
            ["S.opt.zero_grad(set_to_none=False)", f"(S.v * {u}).sum().backward()"],
            ["with ad.no_grad():", f"    out.append({w} * {v})"], ["with ad.enable_grad():", f"    S.aux = {n}"],
            ["with ad.inference_mode():", f"    out.append(({w} + 1).detach().clone().sum())"],
            [f"r = {w} * S.v", "r.retain_grad()", "r.sum().backward()", "out.append(r.grad)"],
            [f"r = {line} * S.v", "r.register_hook(lambda g: g * 3)", "r.sum().backward()"],
            [f"r = {line} * S.m.weight", "S.aux = r.sum(); out.append(r)"],
            [f"d = {line}.detach().requires_grad_()", "(d * d).sum().backward()", "out.append(d)", "out.append(d.grad)"],
            [f"d = {w}.clone().detach_()", f"d.add_({v}.detach())", "out.append(d)"],
            ["S.h = (S.h * S.v).detach_()"], ["S.held.t.detach_()"], [f"d = {w}.detach()", "d.mul_(S.v)", "out.append(d)", "S.log.append(d[0])"],
            [f"d = {line}.detach().requires_grad_()", "out.append(d); S.aux = (d * 2).sum()"],
            [f"q = {w}", "q2 = q[0]", "out.append(q); out.append(q2); out.append(q.detach())"],
            [f"g, = ad.autograd.grad((S.v * {line}).sum(), [S.v])", "out.append(g)"],
            ["S.row[0].add_(1)"], ["out.append(x.stride()); out.append(S.sq.stride())"], [f"S.h, S.b = {w}, S.h"],
            ["S.table.update(c=S.h, a=S.b)"], ["S.old = S.m.weight; out.append(S.old is S.m.weight)"],
            ["out.append(x.is_contiguous())"],
            [f"q = {w}; d = ad.zeros_like(q); d.copy_(q)", "out.append(d); S.log.append(q)"],
            [f"d = ad.empty(3).copy_({line}); S.list.append(d)", "out.append(ad.empty(3).copy_(d))"],
            [f"S.h.copy_({w}.detach())"], [f"S.list[0].copy_({line}.detach()); out.append(S.list[0])"],
            [f"m = {w}.detach() * 2; S.log.append(m)", "if S.w.grad is not None:", "    S.w.grad.copy_(m)"],
        ]  # fmt: skip

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
            "S.m.weight.data = ad.ones(3)", "S.m.mean = ad.ones(3)", "S.m = Layer()", "S.m.weight.requires_grad_(False)",
            "S.held.t = ad.zeros(2, 3)", "S.two = Two(S.two.b.detach(), S.v.detach())", "S.list[0] = S.list[1]",
            "S.v.data = S.v.data * 2", "S.h = S.b[:]", "S.view.add_(1)", "S.v.grad = ad.ones(3)",
            "S.sq = S.sq.detach().clone().t()", "S.list.append(ad.ones(3))", "S.m.weight = ad.nn.Parameter(ad.ones(3))",
            "S.held.t = S.h", "S.w = S.w.detach().requires_grad_()", "S.log.append(S.h.detach())",
        )  # fmt: skip

    def arguments(self) -> str:
        """The arguments of a call."""
        return self.pick(
            "(ad.ones(2, 3), ad.ones(2, 3) * 2)", "(ad.ones(2, 3), ad.ones(2, 3) * 2)",
            "(ad.ones(2, 3).requires_grad_(), ad.ones(2, 3))", "(S.h, ad.ones(2, 3))",
            "(S.w, S.h)", "(z := ad.ones(2, 3), z)", "(ad.ones(3, 2).t(), ad.ones(2, 3))",
            "(ad.ones(1, 3).expand(2, 3), ad.ones(2, 3))", "(S.b, S.b)",
            "((ad.ones(2, 3).requires_grad_() * 2), ad.ones(2, 3))", "(S.held.t, S.h)",
            "(ad.ones(4, 3)[::2], ad.ones(2, 3))", "(S.b[:], S.h)", "(S.sq[:2], S.sq[1:])",
            "((z := ad.ones(2, 3).requires_grad_()).view(2, 3), z)", "(ad.ones(6).view(2, 3), S.w.detach())",
        )  # fmt: skip


def world(source: str) -> dict[str, Any]:
    """A world in which the program's function can be called."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, "<program>", "exec"), scope)
    scope["S"] = scope["start"]()
    return scope


def _tensor(t: Any, seen: dict[int, int], memory: dict[int, int]) -> Any:
    held = t.detach()
    place = memory.setdefault(held.untyped_storage().data_ptr(), len(memory))
    grad = None if t.grad_fn is not None or t.grad is None else shape(t.grad, seen, memory)
    numbers = np.round(held.to(ad.float64).numpy(), 4).tolist()
    tape = t.requires_grad, t.grad_fn is None, t.is_leaf
    return "tensor", type(t).__name__, t.dtype.name, numbers, place, *tape, grad


def shape(value: Any, seen: dict[int, int], memory: dict[int, int]) -> Any:
    """A value for comparison with another world's: contents, sharing, place on the tape."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if type(value) is tuple and all(isinstance(x, int) for x in value):
        return "sizes", value  # nobody asks which object such a tuple is
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, ad.Tensor):
        return _tensor(value, seen, memory)
    if isinstance(value, dict):
        return [(k, shape(v, seen, memory)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shape(v, seen, memory) for v in value]
    if isinstance(value, ad.optim.Optimizer):
        return [shape(kept, seen, memory) for kept in value.state.values()]
    if isinstance(value, ad.nn.Module):
        named = [*value.named_parameters(), *value.named_buffers()]
        return [(name, shape(t, seen, memory)) for name, t in named]
    if isinstance(value, BaseException):
        return "RuntimeError" if isinstance(value, RuntimeError) else type(value).__name__
    return shape(vars(value), seen, memory)


def gradients(scope: dict[str, Any], result: Any) -> Any:
    """What a loss made of all that is on the tape gives to the leaves."""
    S = scope["S"]
    results = result if isinstance(result, list) else []
    held = [*results, *S.log, *S.list, *S.two, S.held.t, *vars(S).values()]
    kept = {id(t): t for t in held if isinstance(t, ad.Tensor) and t.grad_fn is not None}
    every = [S.w, S.v, S.leaf, S.m.weight, *(t for t in held if isinstance(t, ad.Tensor))]
    leaves = list({id(t): t for t in every if t.requires_grad and t.is_leaf}.values())
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
