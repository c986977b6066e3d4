"""`adjoint predict FOLDER INPUT`: what a model says that `adjoint train` made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from adjoint.training.recipes import _common, csv, gpt, images, sentences

PREDICT: dict[str, Callable[..., None]] = {
    "csv": csv.predict,
    "images": images.predict,
    "sentences": sentences.predict,
    "gpt": gpt.predict,
}


def predict(
    folder: str,
    inputs: Sequence[str],
    length: int | None = None,
    temperature: float | None = None,
    with_rows: bool = False,
) -> int:
    """Tables, pictures, sentences or beginnings of a text, as the folder's model takes them."""
    if not inputs:
        forgotten = Path(folder).is_file() and Path(folder).name != _common.MODEL
        example = f"runs/csv {folder}" if forgotten else f"{folder} new.csv"
        raise ValueError(
            "give the folder that it was trained into, then what to predict for, as in "
            f"`adjoint predict {example}`"
        )
    recipe = _common.kept_by(folder)["recipe"]
    folder = str(Path(folder).parent) if Path(folder).name == _common.MODEL else folder
    if recipe not in PREDICT:
        raise ValueError(f"{folder}: no predictions for the recipe {recipe!r}")
    options = {"length": length, "temperature": temperature}
    given = {name: value for name, value in options.items() if value is not None}
    if given and recipe != "gpt":
        names = " and ".join(f"--{name}" for name in given)
        raise ValueError(f"predict: {names} is for models of text; {folder} is of {recipe!r}")
    if with_rows:
        if recipe not in ("csv", "sentences"):
            raise ValueError(f"predict: --with-rows is for tables; {folder} is of {recipe!r}")
        PREDICT[recipe](folder, inputs, rows=True)
        return 0
    PREDICT[recipe](folder, inputs, **given)
    return 0
