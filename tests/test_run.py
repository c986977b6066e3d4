"""`adjoint run`: PyTorch scripts, unmodified, print what they print under PyTorch.

`tests/scripts/expected` holds PyTorch 2.13's output; `python tests/test_run.py` writes it anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.forking import ROOT, TRAINING, forking

Command = Callable[[Path], tuple[int, str, str]]  # runs a script: status, output, stderr
SCRIPTS = sorted((ROOT / "tests" / "scripts").glob("*.py"))
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return started("-m", "adjoint.cli", "run", *args)


def started(*args: str) -> subprocess.CompletedProcess[str]:
    """An interpreter's output."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def expected_of(script: Path) -> Path:
    return script.parent / "expected" / f"{script.stem}.txt"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    program = tmp_path_factory.mktemp("command") / "adjoint.py"
    program.write_text((ROOT / "adjoint" / "cli" / "__main__.py").read_text())
    with forking("adjoint.cli", *TRAINING) as process:
        yield lambda script: process.run(program, "run", str(script))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.stem)
def test_script_prints_what_pytorch_prints(script: Path, command: Command) -> None:
    status, out, said = command(script)
    assert status == 0, said
    want = expected_of(script).read_text()
    assert NUMBER.sub("#", out) == NUMBER.sub("#", want)
    got_numbers = [float(n) for n in NUMBER.findall(out)]
    want_numbers = [float(n) for n in NUMBER.findall(want)]
    assert got_numbers == pytest.approx(want_numbers, rel=2e-3, abs=2e-3)


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(text)
    return str(path)


def test_compile_has_pytorchs_default(tmp_path: Path) -> None:
    program = """
import torch
@torch.compile
def step(x):
    loss = (x * x).sum()
    if loss.item() > 0:
        print("loss", loss.item())
    return loss
for _ in range(2):
    step(torch.ones(3))
try:
    torch.compile(lambda x: x if x.item() > 0 else -x, fullgraph=True)(torch.ones(()))
except RuntimeError:
    print("refused")
"""
    done = run(write(tmp_path, program))
    assert (done.returncode, done.stdout) == (0, "loss 3.0\nloss 3.0\nrefused\n"), done.stderr
    assert done.stderr.count("step runs as Python") == 1


def test_submodules_are_the_same_objects(tmp_path: Path) -> None:
    program = """
import sys, pickle
import torch.nn.functional as F
import torch, adjoint
from torch.utils import data
from torch.optim.lr_scheduler import StepLR
assert torch is adjoint and torch.nn is adjoint.nn and F is adjoint.nn.functional
assert torch.autograd is adjoint.autograd and torch.linalg is adjoint.linalg
assert sys.modules["torch.nn"].__spec__.name == "torch.nn"
assert torch.__version__ >= "2.0" and torch.__version__ >= (1, 13)
assert tuple(int(p) for p in torch.__version__.split(".")[:2]) >= (2, 0)
class Own: pass
assert type(pickle.loads(pickle.dumps(Own()))) is Own
print(__name__, sys.argv[1:], torch.float32, torch.Size([2]))
"""
    done = run(write(tmp_path, program), "--lr", "0.1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "__main__ ['--lr', '0.1'] torch.float32 torch.Size([2])\n"


MISSING = [
    ("torch.no_such_thing(3)", "torch.no_such_thing"),
    ("torch.ones(2).no_such_thing()", "torch.Tensor.no_such_thing"),
    ("torch.nn.NoSuchLayer(3)", "torch.nn.NoSuchLayer"),
    ("from torch.nn import Linear, NoSuchLayer", "torch.nn.NoSuchLayer"),
    ("import torch.no_such_module", "torch.no_such_module"),
    ("torch.nn.functional.no_such_thing", "torch.nn.functional.no_such_thing"),
    ("torch.utils.no_such_thing", "torch.utils.no_such_thing"),
    ("torch.cuda.no_such_thing()", "torch.cuda.no_such_thing"),
    ("torch.optim.NoSuchOptimizer", "torch.optim.NoSuchOptimizer"),
    ("torch.nn.Linear(1, 1).weight.no_such_thing", "torch.nn.Parameter.no_such_thing"),
    ("torch.nn.Linear(1, 1).no_such_thing", "torch.nn.Linear.no_such_thing"),
    ("import torchvision; torchvision.models.no_such_net", "torchvision.models.no_such_net"),
    ("from torchvision.datasets import MNIST, NoSuchSet", "torchvision.datasets.NoSuchSet"),
    ("import torchvision.no_such_module", "torchvision.no_such_module"),
]


def test_annotations_of_a_script_are_values(tmp_path: Path, command: Command) -> None:
    """They are text only where the script itself asks for that."""
    program = """
from dataclasses import dataclass, fields
import torch

@dataclass
class Options:
    steps: int = 3
    dtype: torch.dtype = torch.float32

def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return by * x

print([f.type for f in fields(Options)], scaled.__annotations__["by"])
"""
    status, out, said = command(Path(write(tmp_path, program)))
    assert status == 0, said
    assert out == "[<class 'int'>, <class 'torch.dtype'>] <class 'float'>\n"
    future = f"from __future__ import annotations\n{program}"
    status, out, said = command(Path(write(tmp_path, future)))
    assert (status, out) == (0, "['int', 'torch.dtype'] float\n"), said


def test_the_engine_is_no_part_of_torch(tmp_path: Path, command: Command) -> None:
    program = """
import importlib, sys
import torch, torch.nn
from adjoint.engine.graph.ir import Value
print(hasattr(torch, "engine"), "engine" in dir(torch), Value.__name__)
for name in ("torch.engine", "torch.engine.graph.ir"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(error)
print([name for name in sys.modules if name.startswith("torch.engine")])
"""
    status, out, said = command(Path(write(tmp_path, program)))
    assert status == 0, said
    assert out.splitlines() == [
        "False False Value",
        "No module named 'torch.engine'",
        "No module named 'torch.engine'",
        "[]",
    ]


def test_errors_say_pytorchs_names_of_modules(tmp_path: Path, command: Command) -> None:
    names = (
        "torch.optim torch.nn.init torch.nn.utils torch.nn.modules.linear torch.autograd.graph "
        "torch.utils.checkpoint torch.optim.adamw torch.export torchvision.utils torch.version "
        "torch._inductor torch.utils.cpp_extension"
    ).split()
    program = f"""
import importlib
for name in {names}:
    try:
        importlib.import_module(name).no_such_name
    except AttributeError as error:
        print(str(error).removesuffix(". If PyTorch has it, Adjoint does not yet"), error.name)
"""
    status, out, said = command(Path(write(tmp_path, program)))
    assert status == 0, said
    told = [f"module '{name}' has no attribute 'no_such_name' no_such_name" for name in names]
    assert out.splitlines() == told


@pytest.mark.parametrize(("line", "name"), MISSING, ids=[line for line, _ in MISSING])
def test_missing_features_are_named_with_their_line(
    line: str, name: str, command: Command, tmp_path: Path
) -> None:
    status, _, said = command(Path(write(tmp_path, f"import torch\n\n{line}\n")))
    last = said.strip().splitlines()[-1]
    assert status == 1
    assert f"does not have {name} yet" in last
    assert "program.py, line 3" in last


def test_tracebacks_show_the_script_alone(tmp_path: Path) -> None:
    program = "import torch\ndef f(x):\n    return x @ torch.ones(4, 2)\nf(torch.ones(2, 3))\n"
    done = run(write(tmp_path, program))
    files = re.findall(r'File "(.*?)"', done.stderr)
    assert {Path(f).name for f in files} == {"program.py"}
    assert "3 != 4" in done.stderr


def test_exit_status_and_missing_file(tmp_path: Path) -> None:
    assert run(write(tmp_path, "import sys; sys.exit(7)")).returncode == 7
    done = run(str(tmp_path / "absent.py"))
    assert done.returncode == 2
    assert "absent.py" in done.stderr


if __name__ == "__main__":
    for each in SCRIPTS:
        out = subprocess.run([sys.executable, each], capture_output=True, text=True, check=True)
        expected_of(each).write_text(out.stdout)


def test_train_runs_a_file_as_run_does(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, torch\nprint(torch.__name__, torch.ones(2).sum().item(), sys.argv[1:])\n")  # fmt: skip
    done = started("-m", "adjoint.cli", "train", str(program), "--lr", "1")
    assert done.stdout == "torch 2.0 ['--lr', '1']\n", done.stderr
    program.write_text("def f():\n    raise ValueError('mine')\nf()\n")
    done = started("-m", "adjoint.cli", "train", str(program))
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert "program.py" in done.stderr
    assert done.stderr.endswith("ValueError: mine\n")
