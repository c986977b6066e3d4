"""DataLoader throughput against PyTorch: 3x224x224 float32 images, batch 32, two workers.

python -m benchmarks.dataloader [--rounds 5] [--epochs 50]

Both loaders run in turn, epoch by epoch, so that both see the same machine. With `--epochs` the
resident memory of the main process over that many epochs of Adjoint's loader is printed too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

import adjoint
from adjoint.utils.data import DataLoader

SHAPE = (3, 224, 224)
IMAGES = 640
BATCH = 32


class Images:
    """Images cut from a pool in memory and scaled, as a decoded and normalised file would be."""

    def __init__(self, library: Any) -> None:
        self.library = library
        rng = np.random.default_rng(0)
        self.pool = rng.integers(0, 256, (64, *SHAPE), np.uint8)

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = self.pool[index % len(self.pool)].astype(np.float32)
        image *= np.float32(1 / 255)
        return self.library.from_numpy(image), index % 10


def epoch(loader: Any) -> float:
    """Images per second of one epoch, each batch read once."""
    start = time.perf_counter()
    count = 0
    for images, _labels in loader:
        float(images[:, 0, 0, 0].sum())
        count += len(images)
    return count / (time.perf_counter() - start)


def resident() -> float:
    """Resident memory of this process in MiB, shared pages not counted."""
    with open("/proc/self/statm") as file:
        _, resident_pages, shared_pages = map(int, file.read().split()[:3])
    return (resident_pages - shared_pages) * 4096 / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=0)
    options = parser.parse_args()
    import torch
    import torch.utils.data

    for persistent in (False, True):
        keywords: dict[str, Any] = {
            "batch_size": BATCH, "shuffle": True, "num_workers": 2,
            "persistent_workers": persistent,
        }  # fmt: skip
        ours: Any = DataLoader(Images(adjoint), **keywords)
        theirs: Any = torch.utils.data.DataLoader(Images(torch), **keywords)  # type: ignore[arg-type]
        epoch(ours), epoch(theirs)
        rates: list[tuple[float, float]] = [
            (epoch(ours), epoch(theirs)) for _ in range(options.rounds)
        ]
        mine, other = (statistics.median(column) for column in zip(*rates, strict=True))
        print(
            f"persistent_workers={persistent!s:5}  adjoint {mine:7.0f} images/s  "
            f"torch {other:7.0f} images/s  ratio {mine / other:.2f}"
        )
    if options.epochs:
        loader: Any = DataLoader(Images(adjoint), batch_size=BATCH, num_workers=2)
        epoch(loader)
        before = resident()
        for _ in range(options.epochs):
            epoch(loader)
        print(f"resident memory: {before:.1f} MiB, {resident():.1f} after {options.epochs} epochs")


if __name__ == "__main__":
    main()
