"""`adjoint predict FOLDER INPUT`: what a model says that `adjoint train` made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjoint.training.recipes import _common, csv, gpt, images

PREDICT: dict[str, Callable[..., None]] = {
    "csv": csv.predict,
    "images": images.predict,
    "gpt": gpt.predict,
}


def predict(
    folder: str,
    inputs: Sequence[str],
    length: int | None = None,
    temperature: float | None = None,
) -> int:
    """Tables, pictures or beginnings of a text, as the model in the folder takes them."""
    recipe = _common.kept_by(folder)["recipe"]
    if recipe not in PREDICT:
        raise ValueError(f"{folder}: no predictions for the recipe {recipe!r}")
    options = {"length": length, "temperature": temperature}
    given = {name: value for name, value in options.items() if value is not None}
    if given and recipe != "gpt":
        names = " and ".join(f"--{name}" for name in given)
        raise ValueError(f"predict: {names} is for models of text; {folder} is of {recipe!r}")
    PREDICT[recipe](folder, inputs, **given)
    return 0
