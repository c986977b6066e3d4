"""Networks of the GPU table that both frameworks build from the same lines."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def unet(ad: Any, nn: Any, widths: tuple[int, ...] = (64, 128, 256)) -> Any:
    """A U-Net as diffusion models have it: group norms, SiLU, skips joined along channels."""

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, out: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.GroupNorm(8, n) for n in (inside, out)])
            self.convs = nn.ModuleList([nn.Conv2d(n, out, 3, padding=1) for n in (inside, out)])
            self.skip = nn.Conv2d(inside, out, 1)
            self.activation = nn.SiLU()

        def forward(self, x: Any) -> Any:
            h = x
            for norm, conv in zip(self.norms, self.convs, strict=True):
                h = conv(self.activation(norm(h)))
            return h + self.skip(x)

    class UNet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            pairs = list(pairwise(widths))
            self.first = nn.Conv2d(3, widths[0], 3, padding=1)
            self.down = nn.ModuleList([Block(a, b) for a, b in pairs])
            self.shrink = nn.ModuleList([nn.Conv2d(b, b, 3, 2, 1) for _, b in pairs])
            self.middle = Block(widths[-1], widths[-1])
            self.grow = nn.ModuleList([nn.ConvTranspose2d(b, b, 4, 2, 1) for _, b in pairs[::-1]])
            self.up = nn.ModuleList([Block(2 * b, a) for a, b in pairs[::-1]])
            self.last = nn.Conv2d(widths[0], 3, 1)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            skips = []
            for block, shrink in zip(self.down, self.shrink, strict=True):
                x = block(x)
                skips.append(x)
                x = shrink(x)
            x = self.middle(x)
            for grow, block in zip(self.grow, self.up, strict=True):
                x = block(ad.cat([grow(x), skips.pop()], 1))
            return self.last(x)

    return UNet()
