"""What the image datasets have in common: images, labels, and their transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.data.dataset import Dataset


class Labelled(Dataset[tuple[Any, Any]]):
    """Items with labels, each passed through its transform.

    Args:
        transform: applied to the item, or None.
        target_transform: applied to the label, or None.
    """

    data: Any
    targets: Any

    def __init__(
        self,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def _item(self, index: int) -> Any:
        return self.data[index]

    def _label(self, index: int) -> Any:
        return int(self.targets[index])

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        item, label = self._item(index), self._label(index)
        if self.transform is not None:
            item = self.transform(item)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return item, label

    def __len__(self) -> int:
        return len(self.targets)

    def extra_repr(self) -> str:
        """Further lines of its description; for subclasses."""
        return ""

    def __repr__(self) -> str:
        root = getattr(self, "root", None)
        lines = [
            f"Number of datapoints: {len(self)}",
            *([] if root is None else [f"Root location: {root}"]),
            *self.extra_repr().splitlines(),
        ]
        for name, change in (
            ("Transform", self.transform),
            ("Target transform", self.target_transform),
        ):
            if change is not None:
                lines += f"{name}: {change!r}".splitlines()
        return "\n    ".join([f"Dataset {type(self).__name__}", *lines])
