"""accelerate: hooks, offloaded and dispatched weights, trackers, local steps, states of a program's own, memory maps."""

import json
import tempfile
from pathlib import Path

import torch
from accelerate import (
    Accelerator,
    cpu_offload,
    disk_offload,
    dispatch_model,
    infer_auto_device_map,
    init_on_device,
)
from accelerate.hooks import ModelHook, SequentialHook, add_hook_to_module, remove_hook_from_module
from accelerate.local_sgd import LocalSGD
from accelerate.state import AcceleratorState, PartialState
from accelerate.tracking import GeneralTracker
from accelerate.utils import (
    broadcast,
    compute_module_sizes,
    concatenate,
    find_tied_parameters,
    gather_object,
    get_balanced_memory,
    honor_type,
    pad_across_processes,
    recursively_apply,
    reduce,
    save_fsdp_model,
    set_module_tensor_to_device,
)
from common import fill, parts, picture
from torch import nn


def network():
    """Three layers."""
    return fill(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2)))


class Twice(ModelHook):
    """Doubles what goes in, and adds to what comes out."""

    def pre_forward(self, module, *args, **kwargs):
        return tuple(2 * x for x in args), kwargs

    def post_forward(self, module, output):
        return output + 1


def hooks():
    """Hooks around modules."""
    layer = fill(nn.Linear(4, 2))
    x = picture(3, 4)
    plain = layer(x)
    add_hook_to_module(layer, Twice())
    once = layer(x)
    add_hook_to_module(layer, SequentialHook(Twice(), Twice()))
    twice = layer(x)
    remove_hook_from_module(layer)
    return [plain, once, twice, layer(x)]


def offloaded():
    """Weights kept elsewhere until they are needed."""
    x = picture(3, 4)
    found = [network().eval()(x)]
    net = network().eval()
    cpu_offload(net, execution_device=torch.device("cpu"))
    found += [net(x), net[0].weight.device.type == "meta"]
    with tempfile.TemporaryDirectory() as folder:
        other = network().eval()
        disk_offload(other, folder, execution_device=torch.device("cpu"))
        found += [other(x), len(list(Path(folder).glob("*.dat"))) > 0]
    placed = dispatch_model(network().eval(), {"": "cpu"})
    found.append(placed(x))
    return found


def planned():
    """Sizes and places of modules."""
    net = network()
    with init_on_device(torch.device("meta")):
        empty = nn.Linear(3, 3)
    set_module_tensor_to_device(empty, "weight", "cpu", value=torch.ones(3, 3))
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    sizes = compute_module_sizes(net)
    plan = infer_auto_device_map(net, max_memory={"cpu": 10**6})
    return [
        sizes[""],
        sizes["0"],
        len(plan),
        empty.weight,
        len(find_tied_parameters(tied)),
        get_balanced_memory(net, {"cpu": 1000})["cpu"],
    ]


class Notes(GeneralTracker):
    """A tracker that remembers."""

    name, requires_logging_directory = "notes", False

    def __init__(self):
        self.seen = []
        super().__init__()

    @property
    def tracker(self):
        return self.seen

    def store_init_configuration(self, values):
        self.seen.append(values)

    def log(self, values, step=None):
        self.seen.append((step, values))


class Counter:
    """A state of the program's own."""

    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def loops():
    """A loop with trackers, own states, steps apart, and checkpoints that are counted."""
    AcceleratorState._reset_state(True)
    notes, counter = Notes(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        accelerator = Accelerator(cpu=True, log_with=notes, project_dir=folder)
        accelerator.init_trackers("run", {"lr": 0.1})
        net = network()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
        data = torch.utils.data.TensorDataset(picture(8, 4), torch.arange(8) % 2)
        net, optimizer, loader = accelerator.prepare(
            net, optimizer, torch.utils.data.DataLoader(data, batch_size=4)
        )
        accelerator.register_for_checkpointing(counter)
        found = []
        with LocalSGD(
            accelerator=accelerator, model=net, local_sgd_steps=2, enabled=False
        ) as local:
            for epoch in range(2):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(net(x), y)
                    accelerator.backward(loss)
                    accelerator.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
                    local.step()
                    counter.count += 1
                    found.append(loss.detach())
                accelerator.log({"loss": float(loss)}, step=epoch)
        accelerator.save_state(folder + "/state")
        counter.count = 0
        accelerator.load_state(folder + "/state")
        accelerator.end_training()
        found += [counter.count, len(notes.seen), accelerator.get_state_dict(net)["0.weight"]]
        accelerator.set_trigger()
        found += [accelerator.check_trigger(), accelerator.check_trigger()]
        with (
            accelerator.join_uneven_inputs([net]),
            accelerator.no_sync(net),
            accelerator.autocast(),
        ):
            found.append(net(picture(4, 4)).sum())
        return found


def pieces():
    """Helpers of one process."""
    PartialState()
    found = [
        gather_object([1, 2]),
        reduce(torch.ones(2), "mean"),
        broadcast(torch.ones(2)),
        pad_across_processes(torch.ones(2, 3)),
        concatenate([{"a": torch.ones(2)}, {"a": torch.zeros(1)}])["a"],
    ]
    moved = recursively_apply(lambda t: t + 1, {"a": torch.zeros(2), "b": (torch.ones(1),)})
    with PartialState().split_between_processes([1, 2, 3]) as part:
        found.append(part)
    return [
        *found,
        moved["a"],
        moved["b"][0],
        honor_type((1, 2), iter([3, 4])),
        json.dumps({"n": PartialState().num_processes}) == '{"n": 1}',
    ]


parts(hooks, offloaded, planned, loops, pieces)
