"""A page that classifies drawn digits, and trains, with no server: a network as WebAssembly.

Writes `index.html` and all it needs into a folder; any server of files shows it:

    python examples/export_page.py runs/page && python -m http.server -d runs/page

python examples/export_page.py [--quick] [folder]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.export.output.linking import wasm_linker
from adjoint.nn import functional as F
from adjoint.training.recipes.digits import data, network

SOURCES = Path(__file__).resolve().parent / "web"


def trainer(net: Any, rate: float) -> Any:
    """A whole step of training."""
    optimizer = ad.optim.Adam(net.parameters(), lr=rate)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def main(arguments: list[str]) -> None:
    """Train, export, write the page."""
    quick = "--quick" in arguments
    given = [a for a in arguments if not a.startswith("-")]
    folder = Path(given[0] if given else "runs/page")
    if wasm_linker() is None:
        print("there is no wasm-ld here: pip install adjoint[export]")
        return
    ad.manual_seed(0)
    images, labels = data()[0].tensors
    net = network()
    step = ad.compile(trainer(net, 4e-3))
    for _ in range(40 if quick else 500):
        chosen = ad.randint(0, len(labels), (50,))
        step(images[chosen], labels[chosen])
    ad.export.aot(
        net, ad.zeros(1, 1, 8, 8), name="digits", machine="wasm32", input_names=["image"],
        output_names=["scores"],
    ).write(folder, "wasm")  # fmt: skip
    batch = (ad.zeros(32, 1, 8, 8), ad.zeros(32, dtype=ad.int64))
    fresh = trainer(network(), 2e-3)
    ad.export.aot(fresh, batch, name="step", machine="wasm32", output_names=["loss"]).write(
        folder, "wasm"
    )
    flat = images.reshape(len(labels), -1).numpy()
    np.hstack([labels.numpy()[:, None], flat]).astype(np.float32).tofile(folder / "train.bin")
    for name in ("index.html", "page.mjs"):
        shutil.copy(SOURCES / name, folder / name)
    for path in sorted(folder.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
