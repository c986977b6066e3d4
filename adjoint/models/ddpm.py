"""Denoising diffusion (Ho et al., 2020): the process and its U-Net, Diffusers' weight names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path
from typing import Any

from adjoint import nn
from adjoint.engine.autodiff.tape.modes import no_grad
from adjoint.engine.ops.create.creation import full
from adjoint.engine.ops.create.ranges import arange, linspace
from adjoint.engine.ops.random.random import randint, randn, randn_like
from adjoint.engine.ops.shape.join import cat
from adjoint.engine.tensor.tensor import Tensor
from adjoint.models.configuration import is_size, stated
from adjoint.models.weights import build, read_json, read_weights
from adjoint.nn import functional as F


def time_embedding(time: Tensor, width: int) -> Tensor:
    """Sines and cosines of the step, (B) -> (B, width)."""
    half = width // 2
    rate = (arange(half, device=time.device).float() * (-log(10000) / (half - 1))).exp()
    angle = time.float()[:, None] * rate
    return cat([angle.sin(), angle.cos()], 1)


def group_norm(channels: int) -> nn.GroupNorm:
    """Normalisation in 32 groups, or as many as there are channels."""
    return nn.GroupNorm(min(32, channels), channels, eps=1e-6)


class ResidualBlock(nn.Module):
    """Two convolutions, the step's embedding added between them, beside a shortcut."""

    def __init__(self, fan_in: int, fan_out: int, embedding: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = group_norm(fan_in)
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, padding=1)
        self.time_emb_proj = nn.Linear(embedding, fan_out)
        self.norm2 = group_norm(fan_out)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1)
        self.conv_shortcut = nn.Identity() if fan_in == fan_out else nn.Conv2d(fan_in, fan_out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time_emb_proj(F.silu(time))[:, :, None, None]
        y = self.conv2(self.dropout(F.silu(self.norm2(y))))
        return y + self.conv_shortcut(x)


class AttentionBlock(nn.Module):
    """Self-attention over all places of a feature map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.group_norm = group_norm(channels)
        self.to_q = nn.Linear(channels, channels)
        self.to_k = nn.Linear(channels, channels)
        self.to_v = nn.Linear(channels, channels)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels)])

    def forward(self, x: Tensor) -> Tensor:
        flat = self.group_norm(x).flatten(2).transpose(1, 2)  # (B, places, C)
        y = F.scaled_dot_product_attention(self.to_q(flat), self.to_k(flat), self.to_v(flat))
        return x + self.to_out[0](y).transpose(1, 2).reshape(x.shape)


class TimeEmbedding(nn.Module):
    """Two linear layers between the step's sines and the blocks."""

    def __init__(self, fan_in: int, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(fan_in, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(F.silu(self.linear_1(x)))


class Downsample(nn.Module):
    """Half the size: every second place of a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class UpsampleBlock(nn.Module):
    """Twice the size, each place repeated, then a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class Stage(nn.Module):
    """One resolution on the way down or up, or the middle."""

    def __init__(self, blocks: list[nn.Module], attentions: int, width: int) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(blocks)
        self.attentions = nn.ModuleList(AttentionBlock(width) for _ in range(attentions))

    def attend(self, index: int, x: Tensor) -> Tensor:
        """What follows a block: attention, in stages that have it."""
        return self.attentions[index](x) if index < len(self.attentions) else x


class DiffusionUNet(nn.Module):
    """Predicts the noise in an image at a step; the defaults are the paper's for CIFAR-10.

    Args:
        channels: of the image.
        width: channels at full size.
        factors: width at each halving, relative to `width`.
        blocks: residual blocks at each size.
        attention: which sizes (by index) attend.

    Shape:
        (B, channels, H, W), (B) steps -> (B, channels, H, W)
    """

    def __init__(
        self,
        channels: int = 3,
        width: int = 128,
        factors: Sequence[int] = (1, 2, 2, 2),
        blocks: int = 2,
        attention: Sequence[int] = (1,),
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.width = width
        wide = 4 * width
        self.conv_in = nn.Conv2d(channels, width, 3, padding=1)
        self.time_embedding = TimeEmbedding(width, wide)
        widths_left, now = [width], width
        self.down_blocks = nn.ModuleList()
        for level, factor in enumerate(factors):
            out = width * factor
            parts: list[nn.Module] = []
            for _ in range(blocks):
                parts.append(ResidualBlock(now, out, wide, dropout))
                now = out
                widths_left.append(now)
            stage = Stage(parts, blocks if level in attention else 0, now)
            if level + 1 < len(factors):
                stage.downsamplers = nn.ModuleList([Downsample(now)])
                widths_left.append(now)
            self.down_blocks.append(stage)
        middle: list[nn.Module] = [ResidualBlock(now, now, wide, dropout) for _ in range(2)]
        self.mid_block = Stage(middle, 1, now)
        self.up_blocks = nn.ModuleList()
        for level, factor in reversed(list(enumerate(factors))):
            out = width * factor
            parts = []
            for _ in range(blocks + 1):
                parts.append(ResidualBlock(now + widths_left.pop(), out, wide, dropout))
                now = out
            stage = Stage(parts, blocks + 1 if level in attention else 0, now)
            if level:
                stage.upsamplers = nn.ModuleList([UpsampleBlock(now)])
            self.up_blocks.append(stage)
        self.conv_norm_out = group_norm(now)
        self.conv_out = nn.Conv2d(now, channels, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        time = self.time_embedding(time_embedding(step, self.width).to(x.dtype))
        x = self.conv_in(x)
        skips = [x]
        for stage in self.down_blocks:
            for index, block in enumerate(stage.resnets):
                x = stage.attend(index, block(x, time))
                skips.append(x)
            for sample in getattr(stage, "downsamplers", ()):
                x = sample(x)
                skips.append(x)
        for index, block in enumerate(self.mid_block.resnets):
            x = self.mid_block.attend(index, block(x, time))
        for stage in self.up_blocks:
            for index, block in enumerate(stage.resnets):
                x = stage.attend(index, block(cat([x, skips.pop()], 1), time))
            for sample in getattr(stage, "upsamplers", ()):
                x = sample(x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As any module's; the first published files name attention's layers otherwise."""
        return super().load_state_dict(published(state_dict), strict, assign)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> DiffusionUNet:
        """The network in a folder of Diffusers' `UNet2DModel`, in evaluation mode."""
        about = read_json(Path(folder) / "config.json")
        for name, only in CONFIG.items():
            if about.get(name, only) != only:
                raise ValueError(
                    f"DiffusionUNet: {name} must be {only!r}, received {about[name]!r}"
                )
        said = partial(stated, about, who="DiffusionUNet")
        widths, kinds = said("block_out_channels"), said("down_block_types")
        channels, blocks = said("in_channels"), said("layers_per_block")
        if not isinstance(widths, list) or not widths or not isinstance(kinds, list):
            raise ValueError(
                "DiffusionUNet: block_out_channels and down_block_types must be lists, received "
                f"{str(widths)[:80]} and {str(kinds)[:80]}"
            )
        for size in (*widths, channels, blocks):
            if not is_size(size):
                raise ValueError(
                    "DiffusionUNet: block_out_channels, in_channels and layers_per_block must be "
                    f"whole numbers of at least 1, received {str(size)[:80]}"
                )
        if any(width % widths[0] for width in widths):
            raise ValueError(
                "DiffusionUNet: block_out_channels must be multiples of the first, received "
                f"{str(widths)[:80]}"
            )
        attention = [i for i, kind in enumerate(kinds) if "Attn" in str(kind)]
        factors = [width // widths[0] for width in widths]
        sizes = (channels, widths[0], factors, blocks)
        return build(lambda: cls(*sizes, attention), read_weights(folder))


# What a published configuration may say besides sizes.
CONFIG = {
    "act_fn": "silu", "attention_head_dim": None, "center_input_sample": False,
    "downsample_padding": 0, "flip_sin_to_cos": False, "freq_shift": 1, "mid_block_scale_factor": 1,
    "norm_eps": 1e-6, "norm_num_groups": 32, "time_embedding_type": "positional",
}  # fmt: skip
ATTENTION = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}


def published(weights: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint under this file's names."""
    out = {}
    for name, value in weights.items():
        parts = name.split(".")
        if "attentions" in parts:
            parts = [ATTENTION.get(part, part) for part in parts]
        out[".".join(parts)] = value
    return out


class DDPM(nn.Module):
    r"""The diffusion process around a noise predictor.

    $x_t = \sqrt{\bar a_t} x_0 + \sqrt{1 - \bar a_t} \epsilon$

    Args:
        model: called with noisy images and steps; gives the noise.
        steps: length of the process.

    Example:
        >>> import adjoint as ad
        >>> net = DiffusionUNet(1, 8, (1, 2), 1, (1,))
        >>> ddpm = DDPM(net, steps=10)
        >>> ddpm.loss(ad.zeros(2, 1, 8, 8)).shape, ddpm.sample((2, 1, 8, 8)).shape
        (adjoint.Size([]), adjoint.Size([2, 1, 8, 8]))
    """

    def __init__(
        self, model: nn.Module, steps: int = 1000, low: float = 1e-4, high: float = 0.02
    ) -> None:
        super().__init__()
        self.model, self.steps = model, steps
        self.register_buffer("beta", linspace(low, high, steps))
        self.register_buffer("alpha_bar", (1 - self.beta).cumprod(0))

    def loss(self, x: Tensor) -> Tensor:
        """The mean squared error of the predicted noise at random steps."""
        step = randint(0, self.steps, (len(x),), device=x.device)
        noise = randn_like(x)
        signal = self.alpha_bar[step].view(-1, *[1] * (x.ndim - 1))
        noisy = signal.sqrt() * x + (1 - signal).sqrt() * noise
        return F.mse_loss(self.model(noisy, step), noise)

    @no_grad()
    def sample(self, shape: Sequence[int]) -> Tensor:
        """Images from noise, step by step."""
        x = randn(*shape, device=self.beta.device)
        for step in reversed(range(self.steps)):
            beta, signal = self.beta[step], self.alpha_bar[step]
            when = full((shape[0],), step, device=x.device)
            x = (x - beta / (1 - signal).sqrt() * self.model(x, when)) / (1 - beta).sqrt()
            if step:
                x = x + beta.sqrt() * randn_like(x)
        return x
