"""A table of your own: predicts a column of a CSV file from the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.data import TensorDataset
from adjoint.data.readers import CSVDataset
from adjoint.engine.core.errors import did_you_mean
from adjoint.metrics import Accuracy
from adjoint.training.pictures import confusion_picture, prediction_picture
from adjoint.training.recipes import _common
from adjoint.training.trainer import Trainer

CLASSES = 50  # whole numbers with no more values than this are classes


def network(inputs: int, outputs: int) -> nn.Module:
    """A row of numbers in; a number, or a score for each class, out."""
    return nn.Sequential(
        nn.Linear(inputs, 128), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, outputs),
    )  # fmt: skip


def table(path: str, target: str | None) -> tuple[CSVDataset, str]:
    """The table, and the name of the column to predict: the last one unless it is given."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path!r}")
    names = CSVDataset(path).names
    name = names[-1] if target is None else target
    if name not in names:
        close, have = did_you_mean(name, names), ", ".join(names)
        raise ValueError(f"--target: {path} has no column {name!r}{close or '.'} It has {have}")
    for column, found in CSVDataset(path).categories.items():
        refuse_gaps(path, column, found)
    data = CSVDataset(path, target=name)
    # What differs in every row (a name, a number of an order) says nothing of another row.
    labels = [c for c in data.columns if len(data.categories.get(c, ())) == len(data.features)]
    if labels and len(labels) < len(data.columns):
        print(f"left out, since every row has another: {', '.join(labels)}")
        data = CSVDataset(path, name, [c for c in data.columns if c not in labels])
    return data, name


def refuse_gaps(path: str, column: str, found: Sequence[str]) -> None:
    """Refuse a column of numbers in which some cells are none: they would be taken for names."""
    gaps = [cell for cell in found if not is_number(cell)]
    empty = any(not cell.strip() for cell in found)
    if empty or len(gaps) < len(found) / 2:
        what = "empty cells" if empty else f"cells that are no numbers, such as {gaps[0]!r}"
        raise ValueError(
            f"{path}: the column {column!r} has {what}. Fill them in or drop the rows."
        )


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def normalised(features: Any, rows: Any) -> Any:
    """Columns with mean 0 and deviation 1, by the rows to learn from."""
    seen = features[rows]
    return (features - seen.mean(dim=0)) / seen.std(dim=0).clamp(min=1e-6)


def main(arguments: Sequence[str] = ()) -> int:
    """Classes or numbers, whichever the column holds."""
    parser = _common.options("csv", __doc__, epochs=40, batch=64, lr=3e-3)
    parser.add_argument("file", help="the table; its first row may name the columns")
    parser.add_argument("--target", help="the column to predict; the last one unless given")
    chosen = _common.begin(parser, arguments)
    data, name = table(chosen.file, chosen.target)
    targets = data.targets
    assert targets is not None
    if not bool(data.features.isfinite().all()):
        raise ValueError(f"{chosen.file}: some cells are empty or not finite. Fill or drop them.")
    order = ad.randperm(len(targets))
    held = max(1, len(targets) // 5)
    test, train = order[:held], order[held:]
    if not len(train):
        raise ValueError(f"{chosen.file}: {len(targets)} rows are too few to learn from")
    x = normalised(data.features, train)
    known = data.categories.get(name)
    whole = not targets.dtype.is_floating_point
    if whole and len(targets.unique()) <= CLASSES:
        values = sorted(set(targets.tolist()))
        names = known or [str(v) for v in values]
        y = targets.clone()
        for k, v in enumerate(values):
            y[targets == v] = k
        return classify(x, y, names, (train, test), name, chosen)
    return regress(x, targets.float().unsqueeze(1), (train, test), name, chosen)


def sets(x: Any, y: Any, parts: tuple[Any, Any]) -> tuple[Any, Any]:
    """Both parts of the table as datasets."""
    train, test = parts
    return TensorDataset(x[train], y[train]), TensorDataset(x[test], y[test])


def classify(
    x: Any, y: Any, names: list[str], parts: tuple[Any, Any], column: str, chosen: Any
) -> int:
    """Train on classes."""
    train, test = sets(x, y, parts)
    model = network(x.shape[1], len(names))
    trainer = _common.fit(model, nn.CrossEntropyLoss(), train, test, chosen, [Accuracy()])
    guesses = trainer.predict([x[parts[1]]]).argmax(dim=1)
    counts = np.zeros((len(names), len(names)))
    for actual, guess in zip(y[parts[1]].tolist(), guesses.tolist(), strict=True):
        counts[actual, guess] += 1
    picture = confusion_picture(Path(chosen.folder) / "csv.png", trainer.history, counts, names)
    reached = trainer.history[-1]["validation_accuracy"]
    most = counts.sum(1).max() / max(counts.sum(), 1)
    end(trainer, chosen, f"{column}: accuracy {reached:.1%} on rows it has not seen "
        f"(always the commonest: {most:.1%})", picture)  # fmt: skip
    return 0


def regress(x: Any, y: Any, parts: tuple[Any, Any], column: str, chosen: Any) -> int:
    """Train on numbers, scaled for the network and back for people."""
    mean, spread = y[parts[0]].mean(), y[parts[0]].std().clamp(min=1e-9)
    train, test = sets(x, (y - mean) / spread, parts)
    trainer = _common.fit(network(x.shape[1], 1), nn.MSELoss(), train, test, chosen)
    guesses = trainer.predict([x[parts[1]]]) * spread + mean
    actual = y[parts[1]]
    picture = prediction_picture(
        Path(chosen.folder) / "csv.png", trainer.history,
        actual[:, 0].tolist(), guesses[:, 0].tolist(),
    )  # fmt: skip
    error = float((guesses - actual).abs().mean())
    usual = float((actual - mean).abs().mean())
    end(trainer, chosen, f"{column}: mean error {error:.4g} on rows it has not seen "
        f"(always the mean: {usual:.4g})", picture)  # fmt: skip
    return 0


def end(trainer: Trainer, chosen: Any, result: str, picture: str | None) -> None:
    """Say how it went."""
    _common.finish(
        result,
        chosen.folder,
        picture,
        [
            f"adjoint train csv {chosen.file} --epochs {2 * trainer.epoch}",
            "docs/tutorials/own_loop.md: the same as a program that you can change",
        ],
    )
