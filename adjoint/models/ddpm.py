"""Denoising diffusion (Ho et al., 2020): the U-Net that predicts noise, and the process."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from adjoint import nn
from adjoint.autodiff.modes import no_grad
from adjoint.nn import functional as F
from adjoint.ops.creation import full
from adjoint.ops.join import cat
from adjoint.ops.random import randint, randn, randn_like
from adjoint.ops.ranges import arange, linspace
from adjoint.tensor.tensor import Tensor


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
        self.to_out = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        flat = self.group_norm(x).flatten(2).transpose(1, 2)  # (B, places, C)
        y = F.scaled_dot_product_attention(self.to_q(flat), self.to_k(flat), self.to_v(flat))
        return x + self.to_out(y).transpose(1, 2).reshape(x.shape)


class Stage(nn.Module):
    """One resolution on the way down or up."""

    def __init__(self, blocks: list[nn.Module], attention: bool, width: int) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(blocks)
        self.attentions = nn.ModuleList(
            AttentionBlock(width) if attention else nn.Identity() for _ in blocks
        )
        self.resample: nn.Module = nn.Identity()


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
        self.time_embedding = nn.Sequential(
            nn.Linear(width, wide), nn.SiLU(), nn.Linear(wide, wide)
        )
        self.conv_in = nn.Conv2d(channels, width, 3, padding=1)
        kept, now = [width], width
        self.down_blocks = nn.ModuleList()
        for level, factor in enumerate(factors):
            out = width * factor
            parts: list[nn.Module] = []
            for _ in range(blocks):
                parts.append(ResidualBlock(now, out, wide, dropout))
                now = out
                kept.append(now)
            stage = Stage(parts, level in attention, now)
            if level + 1 < len(factors):
                stage.resample = nn.Conv2d(now, now, 3, stride=2)
                kept.append(now)
            self.down_blocks.append(stage)
        self.mid = nn.ModuleList(
            [
                ResidualBlock(now, now, wide, dropout),
                AttentionBlock(now),
                ResidualBlock(now, now, wide, dropout),
            ]
        )
        self.up_blocks = nn.ModuleList()
        for level, factor in reversed(list(enumerate(factors))):
            out = width * factor
            parts = []
            for _ in range(blocks + 1):
                parts.append(ResidualBlock(now + kept.pop(), out, wide, dropout))
                now = out
            stage = Stage(parts, level in attention, now)
            if level:
                stage.resample = nn.Conv2d(now, now, 3, padding=1)
            self.up_blocks.append(stage)
        self.conv_norm_out = group_norm(now)
        self.conv_out = nn.Conv2d(now, channels, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        time = self.time_embedding(time_embedding(step, self.width))
        x = self.conv_in(x)
        kept = [x]
        for stage in self.down_blocks:
            for block, attend in zip(stage.resnets, stage.attentions, strict=True):
                x = attend(block(x, time))
                kept.append(x)
            if not isinstance(stage.resample, nn.Identity):
                x = stage.resample(F.pad(x, (0, 1, 0, 1)))
                kept.append(x)
        first, attend, second = self.mid
        x = second(attend(first(x, time)), time)
        for stage in self.up_blocks:
            for block, attend in zip(stage.resnets, stage.attentions, strict=True):
                x = attend(block(cat([x, kept.pop()], 1), time))
            if not isinstance(stage.resample, nn.Identity):
                x = stage.resample(F.interpolate(x, scale_factor=2, mode="nearest"))
        return self.conv_out(F.silu(self.conv_norm_out(x)))


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
        kept = self.alpha_bar[step].view(-1, *[1] * (x.ndim - 1))
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * noise
        return F.mse_loss(self.model(noisy, step), noise)

    @no_grad()
    def sample(self, shape: Sequence[int]) -> Tensor:
        """Images from noise, step by step."""
        x = randn(*shape, device=self.beta.device)
        for step in reversed(range(self.steps)):
            beta, kept = self.beta[step], self.alpha_bar[step]
            when = full((shape[0],), step, device=x.device)
            x = (x - beta / (1 - kept).sqrt() * self.model(x, when)) / (1 - beta).sqrt()
            if step:
                x = x + beta.sqrt() * randn_like(x)
        return x
