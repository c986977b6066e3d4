"""Variational autoencoder (Kingma and Welling, 2013)."""

from __future__ import annotations

from adjoint import nn
from adjoint.engine.ops.random.random import randn_like
from adjoint.engine.tensor.tensor import Tensor
from adjoint.nn import functional as F


class VAE(nn.Module):
    r"""Gaussian code, Bernoulli pixels.

    Shape:
        (B, size) in 0..1 -> reconstruction logits (B, size), mean and log variance (B, latent)

    Example:
        >>> import adjoint as ad
        >>> model = VAE()
        >>> x = ad.rand(2, 784)
        >>> model.loss(x).shape
        adjoint.Size([])
    """

    def __init__(self, size: int = 784, hidden: int = 400, latent: int = 20) -> None:
        super().__init__()
        self.latent = latent
        self.fc1 = nn.Linear(size, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, size)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of the code."""
        hidden = F.relu(self.fc1(x))
        return self.fc21(hidden), self.fc22(hidden)

    def decode(self, code: Tensor) -> Tensor:
        """Logits of the pixels."""
        return self.fc4(F.relu(self.fc3(code)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x)
        code = mean + (0.5 * log_variance).exp() * randn_like(mean)
        return self.decode(code), mean, log_variance

    def loss(self, x: Tensor) -> Tensor:
        r"""$-\mathrm{ELBO}$ per image: reconstruction plus KL from the standard normal."""
        logits, mean, log_variance = self(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        kl = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        return (reconstruction + kl) / len(x)
