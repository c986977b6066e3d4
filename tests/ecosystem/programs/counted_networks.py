"""What networks cost and hold: thop, torchinfo, the counter of operations; slices of safetensors' files."""

import tempfile

import torch
from common import fill, picture, say
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file, save_model
from thop import profile
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torchinfo import summary

net = fill(
    nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
)
x = picture(2, 3, 16, 16)
found = [*profile(net, (x,), verbose=False)]
told = summary(net, input_size=(2, 3, 16, 16), verbose=0)
found += [told.total_params, told.trainable_params, told.total_mult_adds, told.total_output_bytes]
with FlopCounterMode(display=False) as counter:
    net(x).sum().backward()
found.append(counter.get_total_flops())
with tempfile.TemporaryDirectory() as folder:
    file = folder + "/kept.safetensors"
    save_file(
        {"a": picture(6, 8), "b": picture(4).to(torch.bfloat16), "c": torch.arange(5)},
        file,
        metadata={"made": "here"},
    )
    with safe_open(file, "pt") as opened:
        rows = opened.get_slice("a")
        found += [
            *rows.get_shape(),
            rows[2:4].sum(),
            rows[:, 3:].sum(),
            rows[1, 2:5].sum(),
            len(opened.metadata()),
            len(list(opened.keys())),
        ]
    again = load_file(file)
    found += [again["b"].float().sum(), again["c"].sum(), again["b"].dtype == torch.bfloat16]
    save_model(net, folder + "/net.safetensors")
    other = nn.Sequential(
        *(
            type(each)(*given)
            for each, given in (
                (net[0], (3, 8, 3, 1, 1)),
                (net[1], (8,)),
                (net[2], ()),
                (net[3], (2,)),
            )
        ),
        nn.Conv2d(8, 4, 3),
        net[5],
        net[6],
        nn.Linear(4, 3),
    )
    load_model(other, folder + "/net.safetensors")
    found.append((other.eval()(x) - net.eval()(x)).abs().max() < 1e-6)
say(*found)
