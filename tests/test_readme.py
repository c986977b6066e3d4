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


def layers_of(contract: str) -> list[str]:
    """The layers of a contract, highest first: the first name of each line."""
    text = (ROOT / ".importlinter").read_text().split(f"contract:{contract}]", 1)[1]
    lines = text.split("layers =\n", 1)[1].split("\n\n", 1)[0].split("\n#", 1)[0].splitlines()
    return [line.strip().split(" ")[0].removeprefix("adjoint.") for line in lines if line.strip()]


def test_the_picture_shows_the_layers() -> None:
    readme = (ROOT / "README.md").read_text()
    inside = [name.removeprefix("engine.") for name in layers_of("engine")]
    shown = [name for name in inside if name != "backends.threads"]  # a setting of both backends
    for layers, indent in ((layers_of("layers"), ""), (shown, "  ")):
        assert layers
        positions = [re.search(rf"^{indent}{re.escape(x)}\b", readme, re.M) for x in layers]
        assert all(positions), layers
        starts = [p.start() for p in positions if p is not None]
        assert starts == sorted(starts)
