"""`adjoint predict FOLDER INPUT`: what a model says that `adjoint train` made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.training.recipes import _common, csv, gpt, images

PREDICT: dict[str, Callable[[str, Sequence[str]], None]] = {
    "csv": csv.predict,
    "images": images.predict,
    "gpt": gpt.predict,
}


def predict(folder: str, inputs: Sequence[str]) -> int:
    """Tables, pictures or beginnings of a text, as the model in the folder takes them."""
    recipe = _common.kept_by(folder)["recipe"]
    if recipe not in PREDICT:
        raise ValueError(f"{folder}: no predictions for the recipe {recipe!r}")
    PREDICT[recipe](folder, inputs)
    return 0
