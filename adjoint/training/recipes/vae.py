"""A variational autoencoder that imagines handwritten digits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.data import TensorDataset
from adjoint.datasets import digits
from adjoint.nn import functional as F
from adjoint.training.pictures import images_picture
from adjoint.training.recipes import _common

SIDE, HIDDEN = 8, 8


class VAE(nn.Module):
    """An image becomes a few numbers with noise on them, and these the image again."""

    def __init__(self) -> None:
        super().__init__()
        size = SIDE * SIDE
        self.encode = nn.Sequential(nn.Linear(size, 256), nn.ReLU(), nn.Linear(256, 2 * HIDDEN))
        self.decode = nn.Sequential(nn.Linear(HIDDEN, 256), nn.ReLU(), nn.Linear(256, size))

    def forward(self, x: Any) -> Any:
        """(B, 64) to (B, 64 + 16): the image's logits, then mean and log variance."""
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        noisy = mean + (0.5 * log_variance).exp() * ad.randn_like(mean)
        return ad.cat([self.decode(noisy), mean, log_variance], dim=1)


def loss_of(output: Any, image: Any) -> Any:
    """How unlike the image is, and how unlike noise the numbers are (the evidence bound)."""
    logits, mean, log_variance = output.split([SIDE * SIDE, HIDDEN, HIDDEN], dim=1)
    unlike = F.binary_cross_entropy_with_logits(logits, image, reduction="sum")
    apart = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (unlike + apart) / len(image)


def main(arguments: Sequence[str] = ()) -> int:
    """Train on 1,797 digits and draw some that nobody wrote."""
    parser = _common.options("vae", __doc__, epochs=60, batch=64, lr=2e-3)
    chosen = _common.begin(parser, arguments, "vae")
    images = digits()[0].reshape(-1, SIDE * SIDE) / 16
    seen, unseen = images[:1500], images[1500:]
    train, test = TensorDataset(seen, seen), TensorDataset(unseen, unseen)
    model = VAE()
    trainer = _common.fit(model, loss_of, train, test, chosen)
    with ad.no_grad():
        drawn = model.decode(ad.randn(18, HIDDEN)).sigmoid().reshape(-1, SIDE, SIDE)
    picture = images_picture(
        Path(chosen.folder) / "vae.png", trainer.history, drawn.numpy(), [("", True)] * 18,
        "digits nobody wrote",
    )  # fmt: skip
    _common.finish(
        f"loss {trainer.history[-1]['validation_loss']:.2f} on digits it has not seen",
        chosen.folder,
        picture,
        ["adjoint train gpt: text instead of pictures"],
    )
    return 0
