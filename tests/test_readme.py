"""The README's example runs, and what it says of the layers is what is checked."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_example_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    scope: dict[str, object] = {}
    exec(compile(blocks[0], "README.md", "exec"), scope)
    loss = scope["loss"]
    assert loss.item() < 0.05  # type: ignore[attr-defined]


def test_the_picture_shows_the_layers() -> None:
    readme = (ROOT / "README.md").read_text()
    contract = (ROOT / ".importlinter").read_text()
    lines = contract.split("layers =\n", 1)[1].split("\n#", 1)[0].splitlines()
    layers = [re.findall(r"adjoint\.(\w+)", line)[0] for line in lines if line.strip()]
    assert layers
    positions = [re.search(rf"^{layer}\b", readme, re.M) for layer in layers]
    assert all(positions), layers
    starts = [p.start() for p in positions if p is not None]
    assert starts == sorted(starts)
