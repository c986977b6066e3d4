import torch
from common import say
from torchinfo import summary

net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(8 * 8 * 8, 10),
)
told = summary(
    net, input_size=(2, 3, 8, 8), verbose=0, col_names=("output_size", "num_params", "mult_adds")
)
say(
    told.total_params,
    told.trainable_params,
    told.total_mult_adds,
    told.total_output_bytes,
    len(str(told)),
)
