"""accelerate: models made empty, loaded and spread over memory and disk; sizes that fit are found."""

import tempfile

import torch
from accelerate import (
    Accelerator,
    cpu_offload,
    disk_offload,
    dispatch_model,
    infer_auto_device_map,
    init_empty_weights,
    load_checkpoint_and_dispatch,
)
from accelerate.utils import compute_module_sizes, find_executable_batch_size
from common import fill, parts, picture

rows = picture(3, 4)


def make():
    """Three layers."""
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def empty():
    """Weights that come from a file."""
    with init_empty_weights():
        model = make()
    found = [model[0].weight.is_meta, compute_module_sizes(model)[""]]
    with tempfile.TemporaryDirectory() as folder:
        Accelerator(cpu=True).save_model(fill(make()), folder, max_shard_size=100)
        model = load_checkpoint_and_dispatch(model, folder, device_map={"": "cpu"})
        return [*found, model(rows)]


def spread():
    """Layers that lie elsewhere until they are called."""
    found = [cpu_offload(fill(make()), torch.device("cpu"))(rows)]
    with tempfile.TemporaryDirectory() as folder:
        found.append(disk_offload(fill(make()), folder, torch.device("cpu"))(rows))
    with tempfile.TemporaryDirectory() as folder:
        places = {"0": "cpu", "1": "cpu", "2": "disk"}
        model = dispatch_model(fill(make()), places, main_device="cpu", offload_dir=folder)
        found.append(model(rows))
    return [*found, len(infer_auto_device_map(make(), max_memory={"cpu": 10**6}))]


def fitting():
    """A size of batches that fits, tried from above."""
    tried = []

    @find_executable_batch_size(starting_batch_size=16)
    def train(batch_size):
        tried.append(batch_size)
        if batch_size > 4:
            raise RuntimeError("CUDA out of memory.")
        return batch_size

    return [train(), tried]


parts(empty, spread, fitting)
