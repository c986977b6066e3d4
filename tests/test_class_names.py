"""What classes are called under `adjoint run`: PyTorch's names, at which they are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from adjoint.engine.core import ownership
from tests.forking import ROOT


def said(tmp_path: Path, text: str) -> list[str]:
    """What a PyTorch script prints on Adjoint."""
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run([sys.executable, "-m", "adjoint", "run", str(script)],
                          env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


PRINTED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

weight = nn.Linear(2, 2).weight
print(type(torch.ones(2)), type(weight), type(torch.float32), torch.device, torch.Size)
print(nn.LSTMCell, nn.Embedding.__module__, torch.optim.SGD)
print(nn.MultiheadAttention, torch.Generator)
print(torch.optim.lr_scheduler.StepLR, torch.no_grad)
print(Dataset, DataLoader)
print(torch.distributions.Normal, torch.distributions.transforms.StackTransform)
print(torch.typename(nn.ReLU()))
"""
PYTORCHS = """
<class 'torch.Tensor'> <class 'torch.nn.parameter.Parameter'> <class 'torch.dtype'> <class 'torch.device'> <class 'torch.Size'>
<class 'torch.nn.modules.rnn.LSTMCell'> torch.nn.modules.sparse <class 'torch.optim.sgd.SGD'>
<class 'torch.nn.modules.activation.MultiheadAttention'> <class 'torch._C.Generator'>
<class 'torch.optim.lr_scheduler.StepLR'> <class 'torch.autograd.grad_mode.no_grad'>
<class 'torch.utils.data.dataset.Dataset'> <class 'torch.utils.data.dataloader.DataLoader'>
<class 'torch.distributions.normal.Normal'> <class 'torch.distributions.transforms.StackTransform'>
torch.nn.modules.activation.ReLU
"""


def test_types_print_as_pytorchs(tmp_path: Path) -> None:
    assert said(tmp_path, PRINTED) == PYTORCHS.strip().splitlines()


WALKED = """
import importlib, inspect, pickle, pkgutil, sys
import adjoint, torch
from adjoint.cli import class_names
from adjoint.engine.core.ownership import _HOMES, module_of

for name in class_names.MOVED:
    importlib.import_module(f"adjoint.{name}")
for name in ("torch.amp", "torch.fx", "torch.profiler", "torch.jit", "torchvision.transforms.v2",
             "torchvision.models.detection", "torch.distributions", "torch.utils.data",
             "torch.optim.lr_scheduler", "torch.nn.utils.parametrizations"):
    importlib.import_module(name)
count = 0
for module in list(sys.modules.values()):
    for kind in list(getattr(module, "__dict__", {}).values()):
        if isinstance(kind, type) and id(kind) in _HOMES:
            count += 1
            assert module_of(kind).startswith("adjoint."), kind
            found = getattr(importlib.import_module(kind.__module__), kind.__qualname__, None)
            assert found is kind, (kind, module_of(kind))
            assert pickle.loads(pickle.dumps(kind)) is kind
print(count > 500)
print(inspect.getsource(torch.nn.Linear).startswith("class Linear"))
"""


def test_classes_are_found_at_the_path_they_go_by(tmp_path: Path) -> None:
    assert said(tmp_path, WALKED) == ["True", "True"]


COMPILED = """
import torch
from torch import nn

class Wrapped(torch.Tensor):
    pass

step = torch.compile(lambda m, x: m(x).sum(), fullgraph=True)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LSTM(4, 2))
optimizer = torch.optim.Adam(model[:2].parameters(), lr=0.1)

@torch.compile(fullgraph=True)
def train(x):
    optimizer.zero_grad()
    loss = model[:2](x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

x = torch.arange(6.0).reshape(2, 3)
first, second = float(train(x)), float(train(x))
print(second < first, torch.isclose(step(model[:2].eval(), x), model[:2](x).sum()).item())
print(torch.ones(2).as_subclass(Wrapped), torch.nn.Parameter(torch.ones(1)))
print(type(torch.add(torch.ones(2).as_subclass(Wrapped), 1)).__name__)
"""


def test_the_framework_knows_its_own_classes(tmp_path: Path) -> None:
    """Whole steps are recorded, and only a program's subclasses are asked and print by name."""
    assert said(tmp_path, COMPILED) == [
        "True True",
        "Wrapped([1., 1.]) Parameter containing:",
        "tensor([1.], requires_grad=True)",
        "Wrapped",
    ]


def test_a_class_remembers_where_it_is_written() -> None:
    class Kept:
        pass

    before = Kept.__module__
    ownership.know_as(Kept, "elsewhere", "Other")
    try:
        assert (Kept.__module__, Kept.__qualname__) == ("elsewhere", "Other")
        assert ownership.module_of(Kept) == before
        ownership.know_as(Kept, "further")
        assert (ownership.module_of(Kept), Kept.__module__) == (before, "further")
    finally:
        del ownership._HOMES[id(Kept)]
