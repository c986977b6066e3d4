"""Whole objects in files, both ways: modules, optimizers, schedulers, storages, subclasses."""

from __future__ import annotations

import argparse
import copy
import pickle
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare


def optimizer(lib: Any, name: str) -> Any:
    layer = lib.nn.Linear(3, 2)
    made = getattr(lib.optim, name)(layer.parameters(), lr=0.25)
    layer(lib.ones(1, 3)).sum().backward()
    made.step()
    return made


def scheduled(lib: Any) -> Any:
    schedule = lib.optim.lr_scheduler.StepLR(optimizer(lib, "SGD"), 2, gamma=0.5)
    schedule.optimizer.step()
    schedule.step()
    return schedule


def cycling(lib: Any, make: Any) -> Any:
    """A schedule some steps on."""
    layer = lib.nn.Linear(3, 2)
    made = make(lib, lib.optim.SGD(layer.parameters(), lr=0.25, momentum=0.9))
    for _ in range(3):
        made.optimizer.step()
        made.step()
    return made


def rates(schedule: Any) -> list[Any]:
    """What a schedule goes on with."""
    out = []
    for _ in range(7):
        schedule.optimizer.step()
        schedule.step()
        out.append(schedule.get_last_lr())
    return out


def hooked(lib: Any) -> Any:
    layer = lib.nn.Linear(2, 2)
    layer.kept = layer.register_forward_hook(print, with_kwargs=True)
    return layer


def with_attributes(lib: Any) -> Any:
    parameter = lib.nn.Parameter(lib.arange(3.0))
    parameter.note = ["kept"]
    tensor = lib.arange(4.0)
    tensor.note = {"a": 1}
    return [parameter, tensor]


def shared(lib: Any) -> Any:
    x = lib.arange(6.0)
    return [x[2:], x.storage(), x]


# What makes the value with either library.
MADE: dict[str, Any] = {
    "linear": lambda lib: lib.nn.Linear(3, 2),
    "sequential": lambda lib: lib.nn.Sequential(
        lib.nn.Conv2d(1, 2, 3), lib.nn.BatchNorm2d(2), lib.nn.ReLU(), lib.nn.Dropout(0.3)
    ),
    "lstm": lambda lib: lib.nn.LSTM(2, 3, 2, bidirectional=True),
    "attention": lambda lib: lib.nn.MultiheadAttention(4, 2),
    "transformer": lambda lib: lib.nn.TransformerEncoderLayer(4, 2, 8),
    "containers": lambda lib: lib.nn.ModuleDict(
        {"a": lib.nn.ModuleList([lib.nn.Linear(1, 1)]), "b": lib.nn.ParameterList([lib.ones(2)])}
    ),
    "loss": lambda lib: lib.nn.CrossEntropyLoss(weight=lib.ones(2)),
    "hooked": hooked,
    "adam": lambda lib: optimizer(lib, "Adam"),
    "sgd": lambda lib: optimizer(lib, "SGD"),
    "schedule": scheduled,
    "triangular": lambda lib: cycling(
        lib, lambda m, o: m.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2, 2)
    ),
    "triangular2": lambda lib: cycling(
        lib, lambda m, o: m.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2, 2, mode="triangular2")
    ),
    "exp_range": lambda lib: cycling(
        lib, lambda m, o: m.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2, 2, None, "exp_range", 0.9)
    ),
    "averaged": lambda lib: cycling(lib, lambda m, o: m.optim.swa_utils.SWALR(o, 0.05)),
    "attributes": with_attributes,
    "storage": lambda lib: lib.arange(3.0).untyped_storage(),
    "shared": shared,
    "result": lambda lib: lib.tensor([[1.0, 3.0], [4.0, 2.0]]).max(0),
    "namespace": lambda lib: argparse.Namespace(lr=0.1, x=lib.ones(2)),
    "operations": lambda lib: [lib.relu, lib.nn.functional.gelu],
    "numpy": lambda lib: [np.float32(1.5), np.arange(3), np.array(["a"])],
    "meta": lambda lib: lib.ones(2, 3, device="meta"),
    "distribution": lambda lib: lib.distributions.Normal(lib.zeros(2), lib.ones(2)),
}


def shown(value: Any) -> Any:
    """A value in plain words, the same for both libraries."""
    for lib in (ad, torch):
        if isinstance(value, lib.Tensor):
            look = (type(value).__name__, tuple(value.shape), value.stride(), value.requires_grad)
            numbers = None if value.is_meta else value.detach().tolist()
            return (*look, numbers, shown(dict(vars(value))))
        if isinstance(value, lib.nn.Module):
            return type(value).__name__, shown(dict(value.state_dict())), value.extra_repr()
        if isinstance(value, lib.optim.Optimizer):
            return type(value).__name__, shown(value.state_dict())
        if lib.is_storage(value):
            return type(value).__name__, value.nbytes(), list(value)
        if isinstance(value, lib.optim.lr_scheduler.LRScheduler):
            return shown(vars(value)), rates(copy.deepcopy(value))
    if isinstance(value, dict):
        return {str(k): shown(v) for k, v in value.items() if not str(k).startswith("_")}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(v) for v in value]
    if callable(value):
        return value.__name__
    return shown(vars(value)) if hasattr(value, "__dict__") else repr(value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("name", MADE)
def test_both_ways(name: str, zipped: bool) -> None:
    theirs, ours = BytesIO(), BytesIO()
    if name == "storage" and not zipped:
        pytest.skip("PyTorch cannot read its own")
    value = MADE[name](torch)
    torch.save(value, theirs, _use_new_zipfile_serialization=zipped)
    theirs.seek(0)
    wanted = torch.load(BytesIO(theirs.getvalue()), weights_only=False)
    found = ad.load(theirs, weights_only=False)
    assert shown(found) == shown(wanted)
    ad.save(found, ours, pickle, _use_new_zipfile_serialization=zipped)
    ours.seek(0)
    assert shown(ad.load(BytesIO(ours.getvalue()), weights_only=False)) == shown(wanted)
    assert shown(torch.load(ours, weights_only=False)) == shown(wanted)
    if name != "storage":
        assert shown(copy.deepcopy(found)) == shown(copy.deepcopy(wanted))


def test_handles_of_files_remove_their_hooks() -> None:
    file = BytesIO()
    torch.save(hooked(torch), file)
    layer = ad.load(BytesIO(file.getvalue()), weights_only=False)
    assert len(layer._forward_hooks) == len(layer._forward_hooks_with_kwargs) == 1
    ids = {*layer._forward_hooks}
    for _ in range(3):  # numbers of another process are not taken again
        layer.register_forward_hook(print)
    assert len(layer._forward_hooks) == 4
    layer.kept.remove()
    assert len(layer._forward_hooks) == 3
    assert not ids & {*layer._forward_hooks}
    assert not layer._forward_hooks_with_kwargs


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize(
    "place",
    [
        "meta",
        "cpu",
        {"cpu": "meta"},
        lambda s, loc: s,
        lambda s, loc: None,
        lambda s, loc: s.clone(),
    ],
    ids=["meta", "cpu", "dict", "storage", "none", "copy"],
)
def test_places(place: Any, zipped: bool) -> None:
    file = BytesIO()
    torch.save(
        {"x": torch.arange(3.0), "y": torch.ones(2, 2).T},
        file,
        _use_new_zipfile_serialization=zipped,
    )
    for weights_only in (True, False):
        ours, theirs = (
            lib.load(BytesIO(file.getvalue()), place, weights_only=weights_only)
            for lib in (ad, torch)
        )
        assert {k: str(x.device) for k, x in ours.items()} == {
            k: str(x.device) for k, x in theirs.items()
        }
        assert shown(ours) == shown(theirs)


def test_tensors_that_python_pickled() -> None:
    """`pickle.dumps` of PyTorch's tensors names its functions: Adjoint has them at the same places."""
    pickled = pickle.dumps(torch.arange(4.0).reshape(2, 2).T)
    renamed = pickled.replace(b"\x8c\x0ctorch._utils", b"\x8c\x0eadjoint._utils")
    renamed = renamed.replace(b"\x8c\x0dtorch.storage", b"\x8c\x0fadjoint.storage")
    frame = renamed.index(b"\x95")  # the length of what follows, which has become longer
    body = renamed[frame + 9 :]
    back = pickle.loads(renamed[: frame + 1] + len(body).to_bytes(8, "little") + body)
    assert type(back) is ad.Tensor
    assert back.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert back.stride() == (1, 2)
