"""U-Net (Ronneberger et al., 2015): down, across and up again."""

from __future__ import annotations

from adjoint import nn
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor


def double_conv(fan_in: int, fan_out: int, batch_norm: bool) -> nn.Sequential:
    """Two 3x3 convolutions that keep the size."""
    layers: list[nn.Module] = []
    for channels in (fan_in, fan_out):
        layers.append(nn.Conv2d(channels, fan_out, 3, padding=1, bias=not batch_norm))
        layers += [nn.BatchNorm2d(fan_out)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Per-pixel classes from an image; its sides must be multiples of 2**depth.

    Args:
        channels: of the image.
        num_classes: of each pixel.
        width: channels at full size, doubled at each of `depth` halvings.

    Shape:
        (B, channels, H, W) -> (B, num_classes, H, W)

    Example:
        >>> import adjoint as ad
        >>> UNet(1, 2, width=4, depth=2)(ad.zeros(1, 1, 16, 16)).shape
        adjoint.Size([1, 2, 16, 16])
    """

    def __init__(
        self,
        channels: int = 1,
        num_classes: int = 1,
        width: int = 64,
        depth: int = 4,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            double_conv(a, b, batch_norm)
            for a, b in zip([channels, *widths[:-1]], widths, strict=True)
        )
        self.pool = nn.MaxPool2d(2)
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.merge = nn.ModuleList(double_conv(a, b, batch_norm) for a, b in pairs)
        self.out = nn.Conv2d(width, num_classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        factor = 1 << len(self.up)
        if x.shape[-1] % factor or x.shape[-2] % factor:
            raise ShapeError(
                f"UNet: the sides of {tuple(x.shape)} must be multiples of {factor}. Pad the image."
            )
        skips = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else self.pool(x))
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, skips[-2::-1], strict=True):
            x = merge(cat([skip, up(x)], 1))
        return self.out(x)
