"""Networks of usual kinds, the same in every framework: `fw` is Adjoint or PyTorch."""

from __future__ import annotations

from typing import Any


def mobile(fw: Any) -> Any:
    """Inverted residuals: each widens by one tap, goes along images, and narrows by one tap."""
    nn = fw.nn

    class Inverted(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, outside: int, stride: int, factor: int) -> None:
            super().__init__()
            wide = inside * factor
            widen = [nn.Conv2d(inside, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()]
            along = nn.Conv2d(wide, wide, 3, stride, padding=1, groups=wide, bias=False)
            narrow = [nn.Conv2d(wide, outside, 1, bias=False), nn.BatchNorm2d(outside)]
            first = widen if factor > 1 else []
            self.body = nn.Sequential(*first, along, nn.BatchNorm2d(wide), nn.ReLU6(), *narrow)
            self.adds = stride == 1 and inside == outside

        def forward(self, x: Any) -> Any:
            return x + self.body(x) if self.adds else self.body(x)

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(),
        Inverted(16, 16, 1, 1), Inverted(16, 24, 2, 6), Inverted(24, 24, 1, 6),
        Inverted(24, 32, 2, 6), Inverted(32, 32, 1, 6), Inverted(32, 64, 2, 6),
        Inverted(64, 64, 1, 6), nn.Conv2d(64, 256, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100),
    )  # fmt: skip


def generator(fw: Any) -> Any:
    """A picture of 64x64 from 100 numbers, by transposed convolutions of four by four taps."""
    nn = fw.nn
    layers: list[Any] = []
    for inside, outside, stride in ((100, 256, 1), (256, 128, 2), (128, 64, 2), (64, 32, 2)):
        up = nn.ConvTranspose2d(inside, outside, 4, stride, stride - 1, bias=False)
        layers += [up, nn.BatchNorm2d(outside), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh())


def resnet(fw: Any) -> Any:
    """ResNet-18: four stages of two blocks each, 64 to 512 channels."""
    nn = fw.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside),
                nn.ReLU(),
                nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside),
            )  # fmt: skip
            shorter = [nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)]
            self.beside = nn.Sequential(*shorter if stride > 1 else [])

        def forward(self, x: Any) -> Any:
            return fw.relu(self.body(x) + self.beside(x))

    def stage(inside: int, outside: int, stride: int) -> Any:
        return nn.Sequential(Block(inside, outside, stride), Block(outside, outside, 1))

    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), stage(64, 64, 1), stage(64, 128, 2), stage(128, 256, 2),
        stage(256, 512, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100),
    )  # fmt: skip


def unet(fw: Any) -> Any:
    """Two levels down and up again, each beside what was there on the way down."""
    nn = fw.nn

    def twice(inside: int, outside: int) -> Any:
        layers: list[Any] = []
        for channels in (inside, outside):
            layers += [nn.Conv2d(channels, outside, 3, padding=1), nn.BatchNorm2d(outside)]
            layers.append(nn.ReLU())
        return nn.Sequential(*layers)

    class Unet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([twice(3, 16), twice(16, 32), twice(32, 64)])
            self.lift = nn.ModuleList(
                [nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)]
            )
            self.up = nn.ModuleList([twice(64, 32), twice(32, 16)])
            self.last = nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            beside = []
            for n, layer in enumerate(self.down):
                x = layer(x if n == 0 else nn.functional.max_pool2d(x, 2))
                beside.append(x)
            for n, (lift, layer) in enumerate(zip(self.lift, self.up)):  # noqa: B905
                x = layer(fw.cat([lift(x), beside[1 - n]], dim=1))
            return self.last(x)

    return Unet()


def encoder(fw: Any, width: int = 128, heads: int = 4, layers: int = 4) -> Any:
    """A transformer's encoder, of tokens that are given as vectors."""
    nn = fw.nn
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
