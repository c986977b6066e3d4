"""tensordict: modules called with other parameters, extremes, updates in place, memory of files."""

import os
import tempfile

import torch
from common import fill, parts, picture
from tensordict import MemoryMappedTensor, TensorClass, TensorDict, from_modules
from tensordict.nn import TensorDictModule


def borrowed():
    """A module with another's parameters, for a while; many at once by vmap."""
    first, second = fill(torch.nn.Linear(3, 2)), torch.nn.Linear(3, 2)
    with TensorDict.from_module(first).apply(lambda p: p * 2).to_module(second):
        found = [second(picture(4, 3))]
    several = from_modules(first, fill(torch.nn.Linear(3, 2)), as_module=False)

    def call(params, x):
        with params.to_module(second):
            return second(x)

    found.append(torch.vmap(call, (0, None))(several, picture(4, 3)))
    module = TensorDictModule(first, in_keys=["x"], out_keys=["y"])
    with TensorDict.from_module(module).detach().to_module(module):
        found.append(module(TensorDict(x=picture(2, 3)))["y"])
    return found


def extremes():
    """Largest and smallest, and so far."""
    held = TensorDict(a=picture(4, 3), b=picture(4, 2), batch_size=[4])
    return [
        [getattr(held, name)(dim=0).values["a"] for name in ("max", "min", "cummax", "cummin")],
        held.max(dim=0).indices["b"],
        held.sum(dim=0)["a"],
    ]


class Pose(TensorClass):
    """A class of tensors."""

    place: torch.Tensor
    turn: torch.Tensor


def updated():
    """Written in place, one and many."""
    held = TensorDict(a=torch.zeros(3), nested=TensorDict(b=torch.zeros(3, 2)), batch_size=[3])
    held.update_(TensorDict(a=picture(3), nested=TensorDict(b=picture(3, 2)), batch_size=[3]))
    held.copy_(held * 2)
    pose = Pose(place=picture(4, 3), turn=picture(4), batch_size=[4])
    pose.update_({"turn": torch.ones(4)})
    return [held["a"], held["nested", "b"], pose[1:3].place, torch.stack([pose, pose]).turn]


def mapped():
    """Tensors on files."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.memmap")
        made = MemoryMappedTensor.from_tensor(picture(6), filename=path)
        storage = torch.UntypedStorage.from_file(path, shared=True, nbytes=24)
        seen = MemoryMappedTensor.from_storage(storage, dtype=torch.float32, shape=(2, 3))
        seen[0, 0] = 7.0
        name = repr(MemoryMappedTensor.ones(2)).startswith("MemoryMappedTensor(")
        return [made, seen.clone(), name]


parts(borrowed, extremes, updated, mapped)
