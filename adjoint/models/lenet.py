"""LeNet-5 (LeCun et al., 1998), as it is usually built today."""

from __future__ import annotations

from adjoint import nn
from adjoint.engine.tensor.tensor import Tensor


class LeNet(nn.Module):
    """Two convolutions and three linear layers for images of 28 by 28.

    Shape:
        (B, channels, 28, 28) -> (B, num_classes)

    Example:
        >>> import adjoint as ad
        >>> LeNet()(ad.zeros(2, 1, 28, 28)).shape
        adjoint.Size([2, 10])
    """

    def __init__(self, num_classes: int = 10, channels: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2)
        self.relu = nn.ReLU()
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.conv1(x)))  # (B, 6, 14, 14)
        x = self.pool(self.relu(self.conv2(x)))  # (B, 16, 5, 5)
        x = self.relu(self.fc1(x.flatten(1)))
        return self.fc3(self.relu(self.fc2(x)))
