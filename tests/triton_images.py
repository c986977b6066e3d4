"""Programs on images: convolutions, pools and norms with their gradients, a small network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]
Shape = tuple[int, ...]

# Of images and weights: (function, shape of the image, shape of the weights)
CONVOLUTIONS: dict[str, tuple[Callable[..., Any], Shape, Shape]] = {
    "2d": (partial(F.conv2d, padding=1), (2, 5, 6, 6), (7, 5, 3, 3)),
    "stride": (partial(F.conv2d, stride=2, padding=1), (2, 8, 7, 6), (16, 8, 3, 3)),
    "1x1": (partial(F.conv2d, stride=2), (2, 8, 6, 6), (16, 8, 1, 1)),
    "grouped": (partial(F.conv2d, padding=1, groups=2), (2, 4, 5, 5), (6, 2, 3, 3)),
    "depthwise": (partial(F.conv2d, padding=2, groups=4), (2, 4, 5, 5), (4, 1, 5, 5)),
    "dilated": (partial(F.conv2d, dilation=2), (2, 4, 7, 7), (6, 4, 3, 3)),
    "uneven": (partial(F.conv2d, padding="same"), (2, 4, 6, 5), (6, 4, 2, 4)),
    "transposed": (
        partial(F.conv_transpose2d, stride=2, padding=1, output_padding=1),
        (2, 4, 4, 4), (4, 6, 3, 3),
    ),
    "1d": (partial(F.conv1d, padding="same"), (2, 4, 9), (6, 4, 3)),
    "3d": (partial(F.conv3d, stride=(1, 2, 2)), (1, 2, 4, 5, 5), (3, 2, 3, 3, 3)),
    "transposed 1d": (partial(F.conv_transpose1d, stride=3), (2, 4, 5), (4, 3, 5)),
}  # fmt: skip


def convolved(name: str) -> Callable[..., Any]:
    """A convolution and both gradients."""

    def run(x: Any, w: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = CONVOLUTIONS[name][0](x, w)
        return y, *ad.autograd.grad((y * y.sin()).float().sum(), (x, w))

    return run


def operands(name: str, dtype: Any) -> tuple[Any, ...]:
    return tuple(ad.randn(*shape).to(dtype) for shape in CONVOLUTIONS[name][1:])


def pooled(x: Any) -> Any:
    """Pools of all kinds and their gradients; a window of -inf, and one with NaN in it."""
    low = x.clone()
    low[0, 0, :3, :3] = -float("inf")
    low[1, 1, 4, 4] = float("nan")
    found = [*F.max_pool2d(low, 3, 2, 1, return_indices=True)]
    pools: list[Callable[[Any], Any]] = [
        lambda y: F.max_pool2d(y, 3, 2, 1), lambda y: F.max_pool2d(y, 2, 3),
        lambda y: F.max_pool2d(y, 3, 1, 1, 2), lambda y: F.max_pool2d(y, 3, 2, ceil_mode=True),
        lambda y: F.max_pool2d(y, (3, 2), (1, 2), (1, 0)), lambda y: F.adaptive_max_pool2d(y, (3, 5)),
        lambda y: F.avg_pool2d(y, 2), lambda y: F.adaptive_avg_pool2d(y, 1),
        lambda y: F.max_pool1d(y.flatten(1, 2), 3, 2), lambda y: F.max_pool3d(y, 2, 1, 1),
        lambda y: F.max_pool2d(y, (7, 5), 3, (2, 1)),  # by a loop over its taps
    ]  # fmt: skip
    for pool in pools:
        y = x.detach().requires_grad_()
        out = pool(y)
        found += [out, *ad.autograd.grad((out * out.cos()).float().sum(), y)]
    return tuple(found)


RESAMPLED: dict[str, Callable[[Any], Any]] = {
    "means": lambda y: F.avg_pool2d(y, 3, 2, 1),
    "means inside": lambda y: F.avg_pool2d(y, 3, 2, 1, count_include_pad=False),
    "windows partly outside": lambda y: F.avg_pool2d(y, 3, 2, 1, ceil_mode=True),
    "many terms": lambda y: F.avg_pool2d(y, (7, 6), 1),
    "another divisor": lambda y: F.avg_pool2d(y, 3, 2, 1, divisor_override=5),
    "adaptive": lambda y: F.adaptive_avg_pool2d(y, (4, 3)),
    "three dimensions": lambda y: F.avg_pool3d(y, 2, 1, 1),
    "reflected": lambda y: F.pad(y, (2, 3, 1, 4), "reflect"),
    "replicated": lambda y: F.pad(y, (2, 3, 1, 4), "replicate"),
    "around, and cut": lambda y: F.pad(y, (-1, 3, 1, -2), "circular"),
    "one dimension": lambda y: F.pad(y[0], (2, 3), "reflect"),
    "nearest": lambda y: F.interpolate(y, scale_factor=1.7),
    "linear": lambda y: F.interpolate(y, size=(5, 13), mode="bilinear", align_corners=True),
    "cubic": lambda y: F.interpolate(y, size=(13, 5), mode="bicubic"),
    "smooth": lambda y: F.interpolate(y, size=(4, 5), mode="bilinear", antialias=True),
    "transposed": lambda y: F.pad(y.transpose(2, 3), (2, 3, 1, 4), "reflect"),
    "channels last": lambda y: F.avg_pool2d(y.to(memory_format=ad.channels_last), 3, 2, 1),
}


def resampled(names: tuple[str, ...]) -> Callable[..., Any]:
    """Means of windows, padding and interpolation, and their gradients."""

    def run(x: Any) -> Any:
        found = []
        for name in names:
            y = x.detach().requires_grad_()
            out = RESAMPLED[name](y)
            found += [out, *ad.autograd.grad((out * out.cos()).float().sum(), y)]
        return tuple(found)

    return run


def mapped(theta: Any) -> Any:
    """Grids of affine maps, and the gradient of the maps."""
    theta = theta.detach().requires_grad_()
    grids = [F.affine_grid(theta, (2, 1, 5, 4), align_corners=align) for align in (True, False)]
    return *grids, *ad.autograd.grad(sum((g * g.cos()).sum() for g in grids), theta)


def copied(x: Any) -> Any:
    """Padding and nearest pixels of whole numbers."""
    whole = (x * 10).to(ad.int32)
    return F.pad(whole, (2, 3, 1, 4), "reflect"), F.interpolate(whole.to(ad.uint8), size=(5, 19))


def batch_normed(x: Any) -> Any:
    """A batch norm in training, its running statistics and gradients, channels last and first."""
    found = []
    for y in (x, x.to(memory_format=ad.channels_last)):
        y = y.detach().requires_grad_()
        mean, variance = (ad.ones(x.shape[1], device=x.device) for _ in range(2))
        weight, bias = (
            ad.linspace(1, 2, x.shape[1], device=x.device).requires_grad_() for _ in range(2)
        )
        out = F.relu(F.batch_norm(y, mean, variance, weight, bias, True))
        found += [out, *ad.autograd.grad((out * out).float().sum(), (y, weight, bias))]
        found += [mean, variance]
    return tuple(found)


def group_normed(x: Any) -> Any:
    """A group norm and its gradients, channels last and first, of groups of several sizes."""
    found = []
    for groups in (4, x.shape[1]):
        for y in (x, x.to(memory_format=ad.channels_last)):
            y = y.detach().requires_grad_()
            weight, bias = (
                ad.linspace(1, 2, x.shape[1], device=x.device).to(x.dtype).requires_grad_()
                for _ in range(2)
            )
            out = F.silu(F.group_norm(y, groups, weight, bias))
            found += [out, *ad.autograd.grad((out * out.cos()).float().sum(), (y, weight, bias))]
    return tuple(found)


class SmallResNet(nn.Module):
    """A stem, a block with a shortcut that changes channels, and a head.

    A smooth one has no elements whose gradient hangs on the last bit of a value near zero.
    """

    def __init__(self, smooth: bool = False) -> None:
        super().__init__()
        self.bend = F.silu if smooth else F.relu
        self.pool = F.avg_pool2d if smooth else F.max_pool2d
        self.stem, self.norm = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8)
        self.convs = nn.ModuleList(
            [nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.Conv2d(16, 16, 3, 1, 1, bias=False)]
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(16) for _ in range(2)])
        self.shortcut = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.pool(self.bend(self.norm(self.stem(x))), 3, 2, 1)
        y = self.bend(self.norms[0](self.convs[0](x)))
        y = self.bend(self.norms[1](self.convs[1](y)) + self.shortcut(x))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


def train_images(
    backend: str,
    half: bool,
    steps: int,
    device: str = "cpu",
    net: Any = SmallResNet,
    size: int = 32,
) -> tuple[list[float], dict[str, Any]]:
    """Losses of a training, and the gradients of its first step; "eager": not compiled."""
    ad.manual_seed(0)
    model = net().to(device)
    optimizer = ad.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, y = ad.randn(4, 3, size, size).to(device), ad.randint(0, 10, (4,)).to(device)

    def step(x: Any, y: Any) -> Any:
        with ad.autocast(device, dtype=ad.bfloat16, enabled=half):
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = step if backend == "eager" else ad.compile(step, backend=backend)
    losses = [run(x, y).item()]
    grads = {n: p.grad.float().cpu() for n, p in model.named_parameters() if p.grad is not None}
    return losses + [run(x, y).item() for _ in range(steps - 1)], grads


def distance(got: Any, want: Any) -> float:
    """How far tensors are apart, by their norms; 0 where both are the same, NaN and all."""
    got, want = got.float().cpu(), want.float().cpu()
    if ad.equal(got.nan_to_num(7.0), want.nan_to_num(7.0)):
        return 0.0
    return float(((got - want).norm() / (want.norm() + 1e-6)).item())


def furthest(got: dict[str, Any], want: dict[str, Any]) -> float:
    """The largest relative difference of gradients."""
    assert got.keys() == want.keys()
    return max(((got[n] - g).norm() / (g.norm() + 1e-6)).item() for n, g in want.items())


IMAGE_PROGRAMS: dict[str, Program] = {
    f"convolution {name}{kind}": (convolved(name), partial(operands, name, dtype))
    for name in CONVOLUTIONS
    for kind, dtype in (("", ad.float32), (" of halves", ad.bfloat16))
}
IMAGE_PROGRAMS |= {
    "pools": (pooled, lambda: (ad.randn(2, 3, 9, 8),)),
    "resampled": (resampled(tuple(RESAMPLED)), lambda: (ad.randn(2, 3, 9, 8),)),
    "resampled halves": (resampled(tuple(RESAMPLED)), lambda: (ad.randn(2, 3, 9, 8).bfloat16(),)),
    "some resampled": (resampled(("means", "replicated")), lambda: (ad.randn(1, 2, 6, 5),)),
    "mapped": (mapped, lambda: (ad.randn(2, 2, 3),)),
    "copied": (copied, lambda: (ad.randn(2, 3, 9, 8),)),
    "batch norm": (batch_normed, lambda: (ad.randn(2, 64, 24, 24) + 5,)),
    "batch norm of halves": (
        lambda x: batch_normed(x.bfloat16()), lambda: (ad.randn(2, 64, 24, 24) + 5,)
    ),
    "group norm": (group_normed, lambda: (ad.randn(3, 24, 20, 17) + 5,)),
    "group norm of halves": (
        lambda x: group_normed(x.bfloat16()), lambda: (ad.randn(3, 24, 20, 17) + 5,)
    ),
}  # fmt: skip
