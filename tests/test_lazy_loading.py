"""Families that load on first use, asked for by many threads at once, in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adjoint.engine.core.state import loading

# Every thread begins elsewhere in the list of names, so that all are asked for first by some.
ASKING = """
import random, sys, threading
import adjoint as ad
from adjoint.engine import assembly
sys.setswitchinterval(1e-5)
matrix = ad.tensor([[2.0, 0.5], [0.25, 1.0]])
asks = {
    "x.det": lambda: matrix.det(),
    "x.inverse": lambda: matrix.inverse(),
    "Tensor.slogdet": lambda: ad.Tensor.slogdet(matrix),
    "x.lgamma": lambda: matrix.lgamma(),
    "x.logcumsumexp": lambda: matrix.logcumsumexp(0),
    "x.unique": lambda: matrix.unique(),
    "x.histc": lambda: matrix.histc(3),
    "x.relu": lambda: matrix.relu(),
    "x.relu_": lambda: matrix.clone().relu_(),
    "x.lgamma_": lambda: matrix.clone().lgamma_(),
    "x.quantile": lambda: matrix.quantile(0.5),
    "x.to_sparse": lambda: matrix.to_sparse().to_dense(),
    "x.is_shared": lambda: matrix.is_shared(),
    "x.mT": lambda: matrix.mT,
    "digamma": lambda: ad.digamma(matrix),
    "searchsorted": lambda: ad.searchsorted(ad.arange(3.0), matrix),
    "i0_": lambda: ad.i0_(matrix.clone()),
    "F.gelu": lambda: ad.nn.functional.gelu(matrix),
    "F.pad": lambda: ad.nn.functional.pad(matrix, (1, 1)),
    "F.softplus": lambda: ad.nn.functional.softplus(matrix),
    "F.normalize": lambda: ad.nn.functional.normalize(matrix),
    "functional": lambda: ad.functional.cdist(matrix, matrix),
    "linalg.svd": lambda: ad.linalg.svdvals(matrix),
    "linalg.cond": lambda: ad.linalg.cond(matrix),
    "fft": lambda: ad.fft.fft(matrix).abs(),
    "special": lambda: ad.special.bessel_j0(matrix),
    "signal": lambda: ad.signal.windows.hann(4),
    "nn": lambda: ad.nn.Linear(2, 2, bias=False).weight.shape,
    "optim": lambda: ad.optim.lr_scheduler.StepLR.__name__,
    "distributions": lambda: ad.distributions.Normal(0.0, 1.0).log_prob(matrix),
    "vmap": lambda: ad.vmap(lambda row: row.sum())(matrix),
    "func.grad": lambda: ad.func.grad(lambda x: x.logdet())(matrix),
    "sparse": lambda: ad.sparse_coo_tensor([[0], [1]], [1.0], (2, 2)).to_dense(),
    "_foreach_exp": lambda: ad._foreach_exp([matrix])[0],
    "utils": lambda: ad.utils.data.DataLoader.__name__,
    "vision": lambda: ad.vision.transforms.__name__,
    "missing": lambda: (hasattr(matrix, "no_such_method"), hasattr(ad, "no_such_name")),
}
order = list(asks)
random.Random(SEED).shuffle(order)
threads, failures, told = [], [], {name: set() for name in order}
start = threading.Barrier(len(order))


def ask(first):
    start.wait()
    for name in order[first:] + order[:first]:
        try:
            told[name].add(str(asks[name]()))
        except BaseException as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")


for first in range(len(order)):
    threads.append(threading.Thread(target=ask, args=(first,), daemon=True))
    threads[-1].start()
for thread in threads:
    thread.join(60)
assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
assert not failures, sorted(set(failures))[:8]
assert all(len(answers) == 1 for answers in told.values()), told
print("done")
"""

# What Note [loading in threads] of the assembly asks of the families.
NO_QUESTIONS = """
import importlib
from adjoint.engine import assembly
from adjoint.engine.core.operations.record import HOOKS


def asked(*_):
    raise AssertionError("a family asks for names that load later")


HOOKS.find_method = HOOKS.load_rest = HOOKS.load_sparse = assembly.find = assembly.find_in = asked
for name in assembly.LAZY:
    importlib.import_module(name)
print("done")
"""

SAME_METHODS = """
import adjoint as ad

before = {name: vars(ad.Tensor)[name] for name in list(vars(ad.Tensor))}
mine = ad.Tensor.exp = lambda self: "mine"
before["exp"] = mine
ad.nn.functional.gelu(ad.ones(2))
ad.ones(2, 2).det()
changed = [name for name, value in before.items() if vars(ad.Tensor)[name] is not value]
assert not changed, changed
print("done")
"""

LATE_METHODS = """
import sys
import adjoint as ad
from adjoint.engine import assembly

before = {*vars(ad.Tensor)}
assert assembly.LATE_METHODS <= {*dir(ad.Tensor)} - before
assert not hasattr(ad.ones(2), "no_such_method")
assert not sys.modules.keys() & assembly.WAITING and "scipy" not in sys.modules
assembly.load_lazy()
late = {name for name in {*vars(ad.Tensor)} - before if not name.startswith("_")}
assert late == assembly.LATE_METHODS, late ^ assembly.LATE_METHODS
assert "scipy" not in sys.modules
print("done")
"""


# What a large operation whose program is kept must not wait for (Note [loaded fragments]), and what
# importing the layers must not.
KEPT_FRAGMENT = """
import sys
import numpy as np
import adjoint as ad
import adjoint.nn

x = ad.from_numpy(np.linspace(-3.0, 3.0, 512 * 512, dtype=np.float32).reshape(512, 512))
before = {*sys.modules}
apart = [
    "adjoint.distributed", "adjoint.engine.capture.python", "adjoint.engine.compiler",
    "adjoint.engine.graph.session", "adjoint.engine.backends.llvm", "multiprocessing",
]
early = [name for name in apart if name in before]
assert not early, early
ad.softmax(x, -1)
assert "adjoint.engine.backends.llvm.program.running" in sys.modules
apart = ("capture.python", "graph.record", "graph.sizes.sizing", "graph.execution",
         "graph.eager.recorded", "graph.eager.many_sizes.open_recordings", "compiler.schedule", "compiler.loops", "compiler.lower", "compiler.fuse",
         "graph.passes", "graph.flow", "graph.session", "backends.llvm.program.planning",
         "backends.llvm.templates", "backends.llvm.loops", "backends.llvm.target")
found = [name for name in sys.modules if name.startswith(tuple("adjoint.engine." + a for a in apart))]
print("planned" if "adjoint.engine.backends.llvm.program.planning" in found else "done")
assert "adjoint.engine.backends.llvm.program.planning" in found or not found, found
"""


# What is loaded later is there for star imports and lists of names.
LATER_NAMES = """
import sys
import adjoint.nn.parallel

assert "DistributedDataParallel" in dir(adjoint.nn.parallel)
assert "adjoint.distributed" not in sys.modules
from adjoint.nn.parallel import *

assert issubclass(DistributedDataParallel, adjoint.nn.Module)
print("done")
"""


def run(source: str, wanted: str = "done") -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    assert done.stdout.strip() == wanted, done.stderr[-3000:]


# A program that does nothing but train meets small calls on the tape first.
TRAINING = """
import importlib
import adjoint as ad
from adjoint.engine.core.operations.record import HOOKS
importlib.import_module("adjoint.engine.graph.FIRST")
net = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Linear(8, 2))
optimizer = ad.optim.SGD(net.parameters(), lr=0.1)
x = ad.randn(3, 4)
for step in range(500):
    loss = net(x).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if HOOKS.small_call_code:
        break
print("done" if HOOKS.small_call_code else "native code for small calls was never loaded")
"""


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]
)
def test_threads_that_ask_first_at_once(seed: int) -> None:
    run(ASKING.replace("SEED", str(seed)))


def test_families_ask_for_nothing_while_they_load() -> None:
    run(NO_QUESTIONS)


def test_loading_leaves_the_methods_that_are_there() -> None:
    run(SAME_METHODS)


def test_names_that_no_tensor_has_load_nothing() -> None:
    run(LATE_METHODS)


@pytest.mark.parametrize("first", ["ir", "higher.on_tape", "eager.small_calls", "eager.straight"])
def test_native_code_for_small_calls_is_loaded_whatever_was_first(first: str) -> None:
    run(TRAINING.replace("FIRST", first))


def test_star_imports_have_what_loads_later() -> None:
    run(LATER_NAMES)


def test_a_kept_fragment_loads_nothing_that_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    run(KEPT_FRAGMENT, "planned")
    run(KEPT_FRAGMENT)


def test_a_module_that_asks_for_itself_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for its end; once there, it is handed out at once, and again if it goes."""
    name = "module_that_asks_for_itself"
    (tmp_path / f"{name}.py").write_text(
        "from adjoint.engine.core.state import loading\n"
        "loading.brought(__name__)\n"
        "known = __name__ in loading._there\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    first = loading.brought(name)
    assert not first.known
    with monkeypatch.context() as patch:
        patch.setattr(loading, "bring", None)
        assert loading.brought(name) is first
    monkeypatch.delitem(sys.modules, name)
    loading._there.discard(name)
    second = loading.brought(name)
    assert second is not first
    monkeypatch.delitem(sys.modules, name)
    assert loading.brought(name) is not second
    loading._there.discard(name)
