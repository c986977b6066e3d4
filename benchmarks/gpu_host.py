"""What small eager calls on a GPU cost the host: Adjoint and PyTorch in turns, in one process.

    python -m benchmarks.gpu_host [--profile] [--rounds 7] [name ...]
    TRITON_INTERPRET=1 python -m benchmarks.gpu_host --counted [name ...]

Of each call the least time of some rounds, in us a call, of calls made one after another on few
elements, which the GPU does faster than the host asks for them. Results that are not drawn are
compared. `--profile` tells where Python's time goes, call by call; `--json` writes what was found.
`--counted` needs no GPU: a stand-in for CuPy (of the tests) counts launches and does none of them,
and what is told is processor time, of Adjoint alone; what the stand-in takes itself is in it.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib
import json
import pstats
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[["Operands"], Any]
CALLS_A_ROUND, WARM = 150, 60
SHOWN = 40  # lines of a profile


class Operands:
    """Small tensors of one framework by name, the same numbers in each."""

    def __init__(self, framework: Any) -> None:
        rng = np.random.default_rng(3)
        self.fw, self.f = framework, framework.nn.functional

        def on(*shape: int) -> Any:
            array = rng.standard_normal(shape).astype(np.float32)
            return framework.from_numpy(array).to("cuda")

        self.x, self.y, self.out = on(64, 64), on(64, 64), on(64, 64)
        self.row = on(64)
        self.cube = on(4, 6, 8)
        self.many = on(1 << 20)
        self.leaf = on(64, 64).requires_grad_()
        self.ids = framework.from_numpy(rng.integers(0, 64, 64)).to("cuda")
        self.images, self.filters, self.bias = on(2, 8, 16, 16), on(8, 8, 3, 3), on(8)
        self.single, self.volume = on(2, 8, 32), on(2, 4, 6, 6, 6)
        self.filters1, self.filters3 = on(8, 8, 3), on(4, 4, 3, 3, 3)
        self.depthwise = on(8, 1, 3, 3)
        self.grid = on(2, 12, 12, 2)
        self.theta = on(4, 2, 3)
        self.mean, self.var = on(8), on(8).abs() + 0.5
        self.table, self.offsets = on(100, 16), framework.arange(0, 64, 8).to("cuda")
        self.vectors = on(64, 3), on(64, 3)


def with_gradient(call: Callable[..., Any], *names: str) -> Call:
    """A call and its derivatives by these operands."""

    def run(o: Operands) -> Any:
        leaves = [getattr(o, name).detach().requires_grad_() for name in names]
        return o.fw.autograd.grad(call(o, *leaves).sum(), leaves)[0]

    return run


def autocast(call: Call) -> Call:
    """A call in a region of its own."""

    def run(o: Operands) -> Any:
        with o.fw.autocast("cuda", dtype=o.fw.bfloat16):
            return call(o)

    return run


CALLS: dict[str, Call] = {
    "x + y": lambda o: o.x + o.y,
    "x * 2.5": lambda o: o.x * 2.5,
    "relu": lambda o: o.x.relu(),
    "sum": lambda o: o.x.sum(),
    "matmul": lambda o: o.x @ o.y,
    "linear": lambda o: o.f.linear(o.x, o.y, o.row),
    "layer_norm": lambda o: o.f.layer_norm(o.x, (64,)),
    "x + leaf on the tape": lambda o: o.leaf + o.x,
    "multiply with gradient": with_gradient(lambda o, x: x * o.y, "x"),
    "add_": lambda o: o.out.add_(o.y),
    "add_ with alpha": lambda o: o.out.add_(o.y, alpha=0.5),
    "mul_ by a number": lambda o: o.out.mul_(1.0001),
    "copy_": lambda o: o.out.copy_(o.y),
    "zero_": lambda o: o.out.zero_(),
    "fill_": lambda o: o.out.fill_(0.25),
    "clone": lambda o: o.x.clone(),
    "contiguous of t": lambda o: o.x.t().contiguous(),
    "to half": lambda o: o.x.half(),
    "t": lambda o: o.x.t(),
    "reshape": lambda o: o.x.reshape(32, 128),
    "view": lambda o: o.x.view(32, 128),
    "x[3]": lambda o: o.x[3],
    "x[2:9]": lambda o: o.x[2:9],
    "x[:, 2:9]": lambda o: o.x[:, 2:9],
    "unsqueeze": lambda o: o.x.unsqueeze(1),
    "transpose": lambda o: o.cube.transpose(0, 1),
    "permute": lambda o: o.cube.permute(2, 0, 1),
    "expand": lambda o: o.row.expand(64, 64),
    "detach": lambda o: o.x.detach(),
    "empty": lambda o: o.fw.empty(64, 64, device="cuda"),
    "empty_like": lambda o: o.fw.empty_like(o.x),
    "zeros": lambda o: o.fw.zeros(64, 64, device="cuda"),
    "ones": lambda o: o.fw.ones(64, 64, device="cuda"),
    "full": lambda o: o.fw.full((64, 64), 0.5, device="cuda"),
    "zeros_like": lambda o: o.fw.zeros_like(o.x),
    "arange": lambda o: o.fw.arange(64, device="cuda"),
    "cat": lambda o: o.fw.cat((o.x, o.y)),
    "stack": lambda o: o.fw.stack((o.x, o.y)),
    "where": lambda o: o.fw.where(o.x > 0, o.x, o.y),
    "index by tensor": lambda o: o.x[o.ids],
    "embedding": lambda o: o.f.embedding(o.ids, o.table),
    "embedding_bag offsets": lambda o: o.f.embedding_bag(o.ids, o.table, o.offsets),
    "conv2d": lambda o: o.f.conv2d(o.images, o.filters, padding=1),
    "conv2d bias": lambda o: o.f.conv2d(o.images, o.filters, o.bias, padding=1),
    "conv1d bias": lambda o: o.f.conv1d(o.single, o.filters1, o.bias, padding=1),
    "conv3d": lambda o: o.f.conv3d(o.volume, o.filters3, padding=1),
    "conv2d depthwise": lambda o: o.f.conv2d(o.images, o.depthwise, padding=1, groups=8),
    "conv_transpose2d": lambda o: o.f.conv_transpose2d(o.images, o.filters, o.bias, stride=2),
    "conv2d with gradients": with_gradient(
        lambda o, x, w, b: o.f.conv2d(x, w, b, padding=1), "images", "filters", "bias"
    ),
    "grid_sample": lambda o: o.f.grid_sample(o.images, o.grid, align_corners=False),
    "grid_sample with gradient": with_gradient(
        lambda o, x: o.f.grid_sample(x, o.grid, align_corners=False), "images"
    ),
    "affine_grid": lambda o: o.f.affine_grid(o.theta, (4, 8, 16, 16), align_corners=False),
    "pdist": lambda o: o.f.pdist(o.x),
    "cross with gradient": with_gradient(
        lambda o, x: o.fw.linalg.cross(x[:, :3], o.vectors[1]), "x"
    ),
    "batch_norm by running": with_gradient(
        lambda o, x: o.f.batch_norm(x, o.mean, o.var, o.bias, o.bias), "images"
    ),
    "multi_margin_loss": lambda o: o.f.multi_margin_loss(o.x, o.ids),
    "multi_margin_loss gradient": with_gradient(
        lambda o, x: o.f.multi_margin_loss(x, o.ids), "x"
    ),
    "autocast linear": autocast(lambda o: o.f.linear(o.leaf, o.y, o.row)),
    "autocast linear with gradients": autocast(
        with_gradient(lambda o, x, w, b: o.f.linear(x, w, b), "x", "y", "row")
    ),
    "autocast batch_norm": autocast(
        lambda o: o.f.batch_norm(o.images, o.mean, o.var, o.bias, o.bias, training=True)
    ),
    "autocast batch_norm with gradients": autocast(
        with_gradient(
            lambda o, x, w: o.f.batch_norm(x, o.mean, o.var, w, o.bias, training=True),
            "images", "bias",
        )
    ),
    "autocast gelu with gradient": autocast(with_gradient(lambda o, x: o.f.gelu(x), "x")),
    "autocast cross_entropy with gradient": autocast(
        with_gradient(lambda o, x: o.f.cross_entropy(x, o.ids), "x")
    ),
    "cross_entropy with gradient": with_gradient(lambda o, x: o.f.cross_entropy(x, o.ids), "x"),
}  # fmt: skip
DRAWN: dict[str, Call] = {
    "rand": lambda o: o.fw.rand(64, 64, device="cuda"),
    "randn": lambda o: o.fw.randn(64, 64, device="cuda"),
    "randint": lambda o: o.fw.randint(0, 9, (64, 64), device="cuda"),
    "randn_like": lambda o: o.fw.randn_like(o.x),
    "normal_": lambda o: o.out.normal_(),
    "normal_ of a million": lambda o: o.many.normal_(),
    "normal_(1, 2)": lambda o: o.out.normal_(1.0, 2.0),
    "uniform_": lambda o: o.out.uniform_(),
    "uniform_(-1, 1)": lambda o: o.out.uniform_(-1.0, 1.0),
    "bernoulli_": lambda o: o.out.bernoulli_(0.3),
    "exponential_": lambda o: o.out.exponential_(),
    "dropout": lambda o: o.f.dropout(o.x, 0.1, True),
}


# What is in memory, what depends on how often it was called before, and what is nothing but
# rounding: whatever the images are, the sum of what is normalised stays the same.
NOT_COMPARED = (
    "empty", "empty_like", "add_", "add_ with alpha", "mul_ by a number",
    "autocast batch_norm with gradients",
)  # fmt: skip


def round_of(
    call: Call, operands: Operands, wait: Callable[[], Any], clock: Callable[[], float]
) -> float:
    """Microseconds that a call keeps the host, of some in a row."""
    wait()
    start = clock()
    for _ in range(CALLS_A_ROUND):
        call(operands)
    taken = clock() - start
    wait()
    return 1e6 * taken / CALLS_A_ROUND


def apart(results: dict[str, Any]) -> float:
    """How far results are from each other, against the largest element."""
    arrays = [np.asarray(x.detach().cpu().double().numpy()) for x in results.values()]
    return max(float(np.abs(arrays[0] - a).max() / (np.abs(a).max() + 1e-6)) for a in arrays[1:])


def profiled(call: Call, operands: Operands, clock: Callable[[], float]) -> None:
    """Print where the time of a call goes."""
    profile = cProfile.Profile(clock)
    profile.enable()
    for _ in range(CALLS_A_ROUND):
        call(operands)
    profile.disable()
    table: Any = pstats.Stats(profile)
    rows = sorted(table.stats.items(), key=lambda row: -row[1][2])[:SHOWN]
    for (path, line, name), (_, count, own, whole, _) in rows:
        where = "/".join(path.split("/")[-2:])
        us, both = 1e6 * own / CALLS_A_ROUND, 1e6 * whole / CALLS_A_ROUND
        print(f"    {us:7.2f} {both:7.2f} {count / CALLS_A_ROUND:5.1f}  {where}:{line} {name[:50]}")


def measured(
    name: str,
    sides: dict[str, tuple[Operands, Callable[[], Any]]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The least time of each framework's rounds, which take turns."""
    call = CALLS.get(name) or DRAWN[name]
    best: dict[str, float] = {}
    for operands, wait in sides.values():
        for _ in range(WARM):  # what is compiled after some calls is not what a call takes
            call(operands)
        wait()
    for _ in range(rounds):
        for side, (operands, wait) in sides.items():
            best[side] = min(best.get(side, 1e9), round_of(call, operands, wait, clock))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*CALLS, *DRAWN])
    parser.add_argument("--frameworks", default="adjoint,torch")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--counted", action="store_true")
    parser.add_argument("--json")
    chosen = parser.parse_args()
    sides: dict[str, tuple[Operands, Callable[[], Any]]] = {}
    clock = time.process_time if chosen.counted else time.perf_counter
    if chosen.counted:
        gpu = importlib.import_module("tests.cupy_stand_in").connect(is_run=False)
        importlib.import_module("tests.convolutions_stand_in").connect(gpu)
        chosen.frameworks = "adjoint"
    for name in chosen.frameworks.split(","):
        framework = importlib.import_module(name)
        sides[name] = Operands(framework), framework.cuda.synchronize
    found: dict[str, Any] = {}
    print(f"{'call':28}" + "".join(f"{side:>10}" for side in sides) + "   (us of the host)")
    for name in chosen.names:
        try:
            best = found[name] = measured(name, sides, chosen.rounds, clock)
        except Exception as error:  # the table tells it, and goes on
            print(f"{name:28} {type(error).__name__}: {str(error).splitlines()[0][:100]}")
            continue
        line = f"{name:28}" + "".join(f"{best[side]:10.2f}" for side in sides)
        if len(sides) > 1 and name in CALLS and name not in NOT_COMPARED:
            error = apart({side: CALLS[name](operands) for side, (operands, _) in sides.items()})
            line += "" if error < 2e-3 else f"   APART by {error:.1e}"
        print(line, flush=True)
        if chosen.profile:
            profiled(CALLS.get(name) or DRAWN[name], sides["adjoint"][0], clock)
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(found, file)


if __name__ == "__main__":
    main()
