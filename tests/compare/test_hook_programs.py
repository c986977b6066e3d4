"""Random programs with hooks, under both frameworks: the same calls, in the same order.

What differs (`docs/coming_from_pytorch.md`) is left out: hooks of views that are written to, hooks
behind kinks in second derivatives, whose order is that of the rules' operations.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint

torch: Any = pytest.importorskip("torch")
pytestmark = [pytest.mark.compare, pytest.mark.filterwarnings("ignore")]
Log = list[tuple[Any, ...]]


def value(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return tuple(value(v) for v in x)
    return None if x is None else x.detach().numpy().copy()


class HookProgram:
    """One program: leaves, operations on them and on each other, hooks on some, a backward."""

    def __init__(self, lib: Any, seed: int) -> None:
        self.lib, self.draw = lib, random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.log: Log = []
        self.modules: list[Any] = []
        self.leaves = [self.leaf() for _ in range(self.draw.randint(1, 4))]
        self.values = list(self.leaves)

    def leaf(self) -> Any:
        elements = self.numbers.uniform(0.3, 1.5, 3).tolist()
        x = self.lib.tensor(elements, dtype=self.lib.float64, requires_grad=True)
        self.watch_leaf(x, f"leaf {len(self.log)}")
        return x

    def watch_leaf(self, x: Any, name: str) -> None:
        if self.draw.random() < 0.5:
            x.register_hook(self.hook(name))
        if self.draw.random() < 0.4:
            x.register_post_accumulate_grad_hook(
                lambda p: self.log.append((f"accumulated {name}", value(p.grad)))
            )

    def hook(self, name: str) -> Any:
        change = self.draw.choice([None, None, 2.0])

        def call(g: Any) -> Any:
            self.log.append((name, value(g)))
            return None if change is None else g * change

        return call

    def watch(self, x: Any, name: str) -> None:
        match self.draw.randrange(10):
            case 0 | 1:
                x.register_hook(self.hook(name))
            case 2:
                x.retain_grad()
            case 3:
                x.grad_fn.register_prehook(lambda g: self.log.append((f"pre {name}", value(g))))

    def module(self) -> Any:
        lib, numbers = self.lib, self.numbers

        class HookedScale(lib.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                rows = (numbers.uniform(0.3, 1.5, 3).tolist() for _ in range(2))
                self.w, self.b = (lib.nn.Parameter(lib.tensor(r, dtype=lib.float64)) for r in rows)

            def forward(self, x: Any) -> Any:
                return (x * self.w).sin() + self.b

        made, name = HookedScale(), f"module {len(self.modules)}"
        self.modules.append(made)
        for key, p in made.named_parameters():
            self.watch_leaf(p, f"{name} {key}")
        if self.draw.random() < 0.6:
            made.register_full_backward_hook(
                lambda m, i, o: self.log.append((f"after {name}", value(i), value(o)))
            )
        if self.draw.random() < 0.4:
            made.register_full_backward_pre_hook(
                lambda m, o: self.log.append((f"before {name}", value(o)))
            )
        return made

    def function(self, a: Any, b: Any) -> Any:
        log = self.log

        class LoggedProduct(self.lib.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                a, b = ctx.saved_tensors
                log.append(("function", value(g)))
                return g * b, g * a

        return LoggedProduct.apply(a, b)

    def operate(self, kind: str, a: Any, b: Any) -> Any:
        lib = self.lib
        match kind:
            case "mul":
                return a * b
            case "sub":
                return a - b
            case "sin":
                return a.sin()
            case "relu":
                return (a - 0.8).relu()
            case "sum":
                return a.sum() * b
            case "slices":
                return lib.cat([a[1:], b[:1]])
            case "stack":
                return lib.stack([a, b]).mean(0)
            case "in place":
                return (a * 1.0).mul_(b)
            case "function":
                return self.function(a, b)
            case "module":
                again = self.modules and self.draw.random() < 0.3
                return (self.draw.choice(self.modules) if again else self.module())(a)
            case _:
                reentrant = self.draw.random() < 0.4
                checkpoint = lib.utils.checkpoint.checkpoint
                return checkpoint(lambda x, y: (x * y).sin(), a, b, use_reentrant=reentrant)

    def run(self) -> Log:
        kinds = "mul sub sin relu sum slices stack function module checkpoint".split()
        for k in range(self.draw.randint(3, 12)):
            kind = self.draw.choice([*kinds, "in place"])
            out = self.operate(kind, self.draw.choice(self.values), self.draw.choice(self.values))
            self.watch(out, f"{kind} {k}")
            self.values.append(out)
        made = self.values[len(self.leaves) :]
        try:
            self.go_back(made)
        except RuntimeError:  # a checkpoint that is no part of a backward for chosen tensors
            self.log.append(("refused",))
        owned = [p for m in self.modules for p in m.parameters()]
        self.log += [("gradient", value(x.grad)) for x in (*self.leaves, *owned)]
        self.log += [("kept", value(x.grad)) for x in made if x.retains_grad]
        return self.log

    def go_back(self, made: list[Any]) -> None:
        loss: Any = sum((x * (k + 1)).sum() for k, x in enumerate(made[-3:]))
        match self.draw.randrange(5):
            case 0:
                loss.backward(retain_graph=True)
                loss.backward()
            case 1:
                self.lib.autograd.backward([x.sum() for x in made[-3:]])
            case 2:
                chosen = self.draw.sample(self.leaves, 1)
                found = self.lib.autograd.grad(loss, chosen, allow_unused=True)
                self.log.append(("chosen", value(found)))
            case _:
                loss.backward()


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, np.ndarray):
        return ours is not None and bool(np.allclose(ours, theirs, rtol=1e-9, atol=1e-12))
    return bool(ours == theirs)


@pytest.mark.parametrize("seed", range(150))
def test_hooks_are_called_in_pytorchs_order(seed: int) -> None:
    ours, theirs = (HookProgram(lib, seed).run() for lib in (adjoint, torch))
    assert [entry[0] for entry in ours] == [entry[0] for entry in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert same(mine, other), (mine, other)
