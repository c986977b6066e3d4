"""`adjoint run`: PyTorch scripts, unmodified, print what they print under PyTorch.

`tests/scripts/expected` holds PyTorch 2.13's output; `python tests/test_run.py` writes it anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.stem)
def test_script_prints_what_pytorch_prints(script: Path) -> None:
    done = run(str(script))
    assert done.returncode == 0, done.stderr
    want = expected_of(script).read_text()
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", want)
    got_numbers = [float(n) for n in NUMBER.findall(done.stdout)]
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
# Each program in a process of its own, all of them forked from one that has the command loaded.
FORKING = """
import os, sys
from adjoint.cli import main
for script in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(script + ".said", os.O_WRONLY | os.O_CREAT), 2)
        code = main(["run", script])
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def missing(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """Of each line: with which status its program ended, and the last line of what it said."""
    folder = tmp_path_factory.mktemp("missing")
    scripts = [folder / f"program{i}.py" for i in range(len(MISSING))]
    for script, (line, _) in zip(scripts, MISSING, strict=True):
        script.write_text(f"import torch\n\n{line}\n")
    done = started("-c", FORKING, *map(str, scripts))
    assert done.returncode == 0, done.stderr
    said = [Path(f"{script}.said").read_text().strip().splitlines()[-1] for script in scripts]
    return list(zip(map(int, done.stdout.split()), said, strict=True))


@pytest.mark.parametrize("number", range(len(MISSING)), ids=[line for line, _ in MISSING])
def test_missing_features_are_named_with_their_line(
    missing: list[tuple[int, str]], number: int
) -> None:
    status, last = missing[number]
    assert status == 1
    assert f"does not have {MISSING[number][1]} yet" in last
    assert f"program{number}.py, line 3" in last


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
