"""A table of your own: predicts a column of a CSV file from the others."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.data import TensorDataset
from adjoint.engine.core.arguments import Parser
from adjoint.engine.core.errors import did_you_mean
from adjoint.metrics import Accuracy
from adjoint.training.pictures import confusion_picture, prediction_picture
from adjoint.training.recipes import _cells, _common, _resuming, _table
from adjoint.training.recipes._division import Samples
from adjoint.training.recipes._results import answered, confusion, recognized, unseen

CLASSES = 50  # whole numbers with no more values than this may be classes
# Options without which columns would be read otherwise, or be others.
SETTINGS = ("target", "without", "kind", "missing", "decimal", "days", "exact")
ROWS = ("row", "rows")
FAR = 50  # times the middle half's width, from which on a number is named
EACH = 4  # rows that a class has on average, at least; whole numbers that vary more are numbers


def network(inputs: int, outputs: int) -> nn.Module:
    """A row of numbers in; a number, or a score for each class, out."""
    return nn.Sequential(
        nn.Linear(inputs, 128), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, outputs),
    )  # fmt: skip


def table(
    chosen: argparse.Namespace, said: bool = False
) -> tuple[list[_table.Column], Any, _table.Column, list[str]]:
    """What is learned from, as columns and numbers, and what is learned, as column and cells.

    Whether the user `said` what the point of numbers is decides what another mark may be.
    """
    path, decimal = chosen.file, chosen.decimal
    names, rows = _table.read(path, chosen.encoding)
    name = names[-1] if chosen.target is None else chosen.target
    for option, asked in (("target", name), *(("without", other) for other in chosen.without)):
        if asked not in names:
            close, have = did_you_mean(asked, names), ", ".join(names)
            told = f"{path} has no column {asked!r}{close or '.'} It has {have}"
            raise ValueError(f"--{option}: {told}")
    if name in chosen.without:
        raise ValueError(f"--without: {name!r} is the column to predict. Choose with --target.")
    if len(rows) < 2:
        raise ValueError(f"{path}: {len(rows)} rows are too few to learn from")
    if len(names) < 2:
        raise ValueError(f"{path}: the only column is {name!r}; there is nothing to predict it by")
    if names == [str(k) for k in range(len(names))]:
        print(
            f"the first row has a number in it, so it names no columns: they are 0 to {names[-1]}"
        )
    columns = [
        _table.column(
            path, n, [row[k] for row in rows], decimal, said, exact=chosen.exact, days=chosen.days
        )
        for k, n in enumerate(names)
        if n not in chosen.without
    ]
    target = next(c for c in columns if c.name == name)
    others = [c for c in columns if c is not target]
    used = _table.usable(others, len(rows))
    texts = _table.texts([c for c in others if c not in used], rows, names)
    remedy = _table.learning_from(texts[0], path, name) if texts else ""
    if not used:
        raise ValueError(f"{path}: no column is left to predict {name!r} by. {remedy}".rstrip(" ."))
    if remedy:
        print(remedy)
    places = [names.index(c.name) for c in used]
    numbered = names == [str(k) for k in range(len(names))]
    rows = without_gaps(used, places, target, names.index(name), rows, chosen, 1 + (not numbered))
    if chosen.missing == "fill":
        used = [
            replace(column, gaps=any(column.absent(row[place]) for row in rows))
            for column, place in zip(used, places, strict=True)
        ]
    cells = [row[names.index(name)] for row in rows]
    for column, place in zip(used, places, strict=True):
        if _table.counts_rows([row[place] for row in rows]):
            option = shlex.join(["--without", column.name])
            print(f"{column.name} counts the rows: if it only numbers them, add {option}")
    return used, _table.features(used, places, rows, decimal), target, cells


def without_gaps(
    columns: Sequence[_table.Column], places: Sequence[int], target: _table.Column, place: int,
    rows: list[list[str]], chosen: argparse.Namespace, first: int,
) -> list[list[str]]:  # fmt: skip
    """The rows to learn from: those in which every cell fits its column.

    Others are refused unless told to drop them. With `--missing fill`, absent cells fit, but a row
    whose cell to predict is absent says nothing. Rows count from `first`, as in the file.
    """
    filled = chosen.missing == "fill"
    gaps = [
        _table.gaps(columns, places, row, chosen.decimal, filled)
        + _table.gaps([target], [place], row, chosen.decimal)
        for row in rows
    ]
    faults = [(c, cell, k) for k, row in enumerate(gaps, first) for c, cell in row]
    if not faults:
        return rows
    wrong = [(c, cell, k) for c, cell, k in faults if not c.absent(cell)]
    column, cell, at = (wrong if filled and wrong else faults)[0]
    what = f"cells that are no {column.holds}, such as {cell!r}" if cell.strip() else "empty cells"
    what += f" (row {at})"
    others = [name for name in dict.fromkeys(c.name for c, _, _ in faults) if name != column.name]
    said = f"the column {column.name!r} has {what}"
    said += f"; gaps also in {', '.join(others)}" if others else ""
    left = sum(1 for row in gaps if row)
    if chosen.missing == "refuse" or (filled and wrong):
        fill = "" if wrong else " --missing fill to learn from what is there, or"
        raise ValueError(
            f"{chosen.file}: {said}. Mend them, or pass{fill} --missing drop to leave out such "
            f"rows ({left} of {len(rows)})."
        )
    full = [row for row, missing in zip(rows, gaps, strict=True) if not missing]
    print(f"left out {left} of {len(rows)} rows: {said}")
    if len(full) < 2:
        raise ValueError(f"{chosen.file}: {len(full)} rows are too few to learn from")
    return full


def classes_of(target: _table.Column, cells: Sequence[str], chosen: Any) -> list[str] | None:
    """The classes that a column names, in order; None if it holds numbers."""
    if target.holds == "choice":
        if len(target.kinds) > CLASSES:
            raise ValueError(
                f"{chosen.file}: the column {target.name!r} holds {len(target.kinds)} kinds of "
                f"text; at most {CLASSES} can be told apart. Choose another with --target."
            )
        if chosen.kind == "number":
            raise ValueError(f"--as number: the column {target.name!r} holds text")
        return list(target.kinds)
    if target.holds == "date":
        raise ValueError(
            f"{chosen.file}: the column {target.name!r} holds dates, which are not predicted. "
            "Choose another with --target."
        )
    numbers = [target.number(cell, chosen.decimal) for cell in cells]
    values = sorted({float(v) for v in numbers if v is not None})
    few = len(values) <= CLASSES
    likely = few and len(values) * EACH <= len(cells) and all(v.is_integer() for v in values)
    if chosen.kind == "classes" and not few:
        raise ValueError(
            f"--as classes: the column {target.name!r} has {len(values)} values; "
            f"at most {CLASSES} can be told apart"
        )
    if chosen.kind == "number" or not (likely or chosen.kind == "classes"):
        return None
    return [f"{v:g}" if not v.is_integer() else str(int(v)) for v in values]


def _options() -> Parser:
    """What can be said on the command line."""
    parser = _common.options("csv", __doc__, epochs=40, batch=64, lr=3e-3)
    parser.add_argument("file", help="the table; its first row may name the columns")
    parser.add_argument("--target", help="the column to predict; the last one unless given")
    parser.add_argument(
        "--without",
        metavar="COLUMN",
        action="append",
        default=[],
        help="a column not to learn from, such as a customer's number; may be repeated",
    )
    parser.add_argument(
        "--as", dest="kind", choices=("classes", "number"), help="what the column to predict holds"
    )
    parser.add_argument(
        "--missing",
        choices=("refuse", "drop", "fill"),
        default="refuse",
        help="rows with gaps: refuse the table (the default), leave such rows out, or learn from "
        "what they have",
    )
    parser.add_argument(
        "--decimal", choices=(".", ","), help="the point of numbers; the other sets thousands apart"
    )
    parser.add_argument(
        "--days",
        choices=tuple(_cells.SLASHED),
        default="",
        help="how days such as 3/4/2024 are to be read, where no row tells",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="texts that differ in case or spaces alone are several kinds, not one",
    )
    parser.add_argument("--encoding", default="utf-8-sig", help="of the file, such as latin-1")
    return parser


def main(arguments: Sequence[str] = ()) -> int:
    """Classes or numbers, whichever the column holds."""
    chosen = _common.begin(_options(), arguments, "csv", SETTINGS)
    said = chosen.decimal is not None
    chosen.decimal = chosen.decimal or "."
    columns, features, target, cells = table(chosen, said)
    _resuming.check_meaning(chosen, columns=_table.columns_as_data(columns), target=target.name)
    pairs = zip(features, cells, strict=True)
    rows = Samples.of_rows(row.tobytes() + cell.encode() for row, cell in pairs)
    division = _resuming.split(chosen, rows, "rows")
    train, test = ad.tensor(division.train), ad.tensor(division.test)
    scale = [numbers.tolist() for numbers in _table.scale(features[division.train])]
    mean, spread = _resuming.carried_over(chosen, "scale", scale)
    x = ad.tensor(_table.scaled(features, mean, spread), dtype=ad.float32)
    settings: dict[str, Any] = {
        "target": target.name,
        "columns": _table.columns_as_data(columns),
        "mean": mean,
        "spread": spread,
        "decimal": chosen.decimal,
        "encoding": chosen.encoding,
        "filled": chosen.missing == "fill",
    }
    if len(set(cells)) == 1:
        raise ValueError(
            f"{chosen.file}: every row has the same {target.name} ({cells[0]}): there is nothing "
            "to predict. Choose another column with --target."
        )
    names = classes_of(target, cells, chosen)
    _resuming.check_meaning(chosen, classes=names)
    what = "a number" if names is None else f"{len(names)} classes"
    print(f"{len(cells)} rows; {target.name} ({what}) from {', '.join(c.name for c in columns)}")
    if names is None:
        numbers = np.array([target.number(cell, chosen.decimal) for cell in cells])
        return regress(x, numbers[:, None], (train, test), settings, chosen)
    values = [target.number(cell, chosen.decimal) for cell in cells]
    place = {value: k for k, value in enumerate(sorted({v for v in values if v is not None}))}
    if target.holds == "choice":
        place = {float(k): k for k in range(len(names))}
    y = ad.tensor([place[v] for v in values if v is not None])
    return classify(x, y, names, (train, test), settings, chosen)


def sets(x: Any, y: Any, parts: tuple[Any, Any]) -> tuple[Any, Any]:
    """Both parts of the table as datasets."""
    train, test = parts
    return TensorDataset(x[train], y[train]), TensorDataset(x[test], y[test])


def classify(
    x: Any, y: Any, names: list[str], parts: tuple[Any, Any], settings: Any, chosen: Any
) -> int:
    """Train on classes."""
    train, test = sets(x, y, parts)
    model = network(x.shape[1], len(names))
    settings = settings | {"classes": names}
    loss = nn.CrossEntropyLoss()
    trainer = _common.fit(model, loss, train, test, chosen, [Accuracy()], settings=settings)
    guesses = trainer.predict([x[parts[1]]]).argmax(dim=1)
    counts = confusion(y[parts[1]].tolist(), guesses.tolist(), len(names))
    picture = confusion_picture(Path(chosen.folder) / "csv.png", trainer.history, counts, names)
    reached = np.trace(counts) / max(counts.sum(), 1)
    most = counts.sum(1).max() / max(counts.sum(), 1)
    said = (
        f"{settings['target']}: accuracy {reached:.1%} on {unseen(len(guesses), *ROWS)} "
        f"(always the commonest: {most:.1%})"
    )
    remedy = "It needs more rows of the others, or other columns."
    end(trainer, chosen, said + recognized(counts, names, remedy), picture)
    return 0


def tell_of_outliers(name: str, numbers: Any) -> None:
    """Name a number that is so far from the others that it is likely to be a mistake."""
    low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75))
    far = numbers[int(np.abs(numbers - middle).argmax())]
    if high > low and abs(far - middle) > FAR * (high - low):
        print(
            f"{name}: {far:.15g} is far from all else (half of them lie between {low:.6g} and "
            f"{high:.6g}), and such a number decides what is learnt: mend it if it is a mistake"
        )


def regress(x: Any, numbers: Any, parts: tuple[Any, Any], settings: Any, chosen: Any) -> int:
    """Train on numbers, scaled for the network and back for people."""
    tell_of_outliers(settings["target"], numbers[:, 0])
    seen = numbers[parts[0].numpy()]
    usual_scale = [float(seen.mean()), max(float(seen.std()), 1e-9)]
    mean, spread = _resuming.carried_over(chosen, "target scale", usual_scale)
    train, test = sets(x, ad.tensor((numbers - mean) / spread, dtype=ad.float32), parts)
    model = network(x.shape[1], 1)
    settings = settings | {"classes": None, "target_mean": mean, "target_spread": spread}
    trainer = _common.fit(model, nn.MSELoss(), train, test, chosen, settings=settings)
    guesses = trainer.predict([x[parts[1]]]).double().numpy() * spread + mean
    actual = numbers[parts[1].numpy()]
    picture = prediction_picture(
        Path(chosen.folder) / "csv.png", trainer.history,
        actual[:, 0].tolist(), guesses[:, 0].tolist(),
    )  # fmt: skip
    error = float(np.abs(guesses - actual).mean())
    usual = float(np.abs(actual - mean).mean())
    said = (
        f"{settings['target']}: mean error {error:.4g} on {unseen(len(actual), *ROWS)} "
        f"(always the mean: {usual:.4g})"
    )
    if error >= usual:
        said += "\n  That is no better than always saying the mean: it needs more rows, or columns "
        said += "that have to do with it."
    end(trainer, chosen, said, picture)
    return 0


def end(
    trainer: _common.RecipeTrainer, chosen: argparse.Namespace, result: str, picture: str | None
) -> None:
    """Say how it went."""
    steps = [_common.command("predict", chosen.folder, "NEW.csv") + " > answers.csv   # new rows"]
    if _common.still_learns(trainer):
        steps.append(_common.longer(trainer, chosen) + "   # go on")
    steps.append(f"{__file__}: the program that did this")
    result += _common.which_epoch(trainer, "more rows do, or fewer columns")
    _common.finish(result, chosen.folder, picture, steps)


def restored(folder: str) -> nn.Module:
    """The network that was trained into a folder; it takes rows scaled as in training."""
    settings, weights = _common.kept_settings(folder, "csv")
    width = sum(c.width for c in _table.restored(settings["columns"]))
    model = network(width, len(settings["classes"] or [0])).eval()
    model.load_state_dict(weights)
    return model


def predictions(folder: str, path: str) -> list[dict[str, Any]]:
    """What a trained model says of every row of a table: the target, and how likely a class is.

    Args:
        folder: where it was trained into.
        path: the table; it needs the columns that were learned from.
    """
    settings, _ = _common.kept_settings(folder, "csv")
    model, columns = restored(folder), _table.restored(settings["columns"])
    classes, decimal = settings["classes"], settings["decimal"]
    names, rows = _table.read(path, _table.encoding_of(path, settings["encoding"]))
    absent = [c.name for c in columns if c.name not in names]
    if absent:
        close = did_you_mean(absent[0], names)
        raise ValueError(
            f"{path}: it lacks the column {absent[0]!r}, which was learned from{close}"
        )
    places = [names.index(c.name) for c in columns]
    filled = bool(settings.get("filled"))
    first = 1 if names == [str(k) for k in range(len(names))] else 2
    for k, row in enumerate(rows, first):
        for column, cell in _table.gaps(columns, places, row, decimal, filled):
            if not (filled and column.holds == "choice"):
                raise ValueError(f"{path}, row {k}: {misfit(column, cell, decimal)}")
            print(
                f"{path}, row {k}: {cell!r} in the column {column.name!r} was not there when it "
                "learned: taken as a gap",
                file=sys.stderr,
            )
    if not rows:
        return []
    numbers = _table.features(columns, places, rows, decimal)
    x = _table.scaled(numbers, settings["mean"], settings["spread"])
    with ad.no_grad():
        scores = model(ad.tensor(x, dtype=ad.float32))
    target = settings["target"]
    if classes is None:
        numbers = scores.double().numpy() * settings["target_spread"] + settings["target_mean"]
        return [{target: float(value)} for value in numbers[:, 0]]
    likely, best = scores.softmax(-1).max(dim=-1)
    pairs = zip(best.tolist(), likely.tolist(), strict=True)
    return [{"probability": p, target: classes[k]} for k, p in pairs]


def misfit(column: _table.Column, cell: str, decimal: str) -> str:
    """What is wrong with a cell of a new row, and what to do."""
    said = f"{cell!r} in the column {column.name!r}; the table it learned from had "
    said += ", ".join(column.kinds) or f"a {column.holds}"
    said += f" with {column.mark} beside it" if column.mark == "%" else ""
    if column.absent(cell):
        return f"{said}. Fill it in, or train with --missing fill, which takes rows with gaps."
    if column.holds == "choice":
        return f"{said}. Train with --missing fill to have other texts taken as gaps."
    if column.mark == "%" and _cells.number(cell, decimal) is not None:
        return f"{said}. Write {cell.strip()}%, if that is what it means."
    grouped = _cells.number(cell, decimal, grouped=True)
    if column.holds == "number" and grouped is not None:
        return (
            f"{said} without thousands set apart. Write {grouped:.15g}, if that is what it means."
        )
    return f"{said}."


def predict(folder: str, inputs: Sequence[str], rows: bool = False) -> None:
    """Print a table with the prediction for each row of the given tables, and the rows if asked."""
    settings, _ = _common.kept_settings(folder, "csv")

    def found(path: str) -> tuple[list[str], list[list[str]], list[dict[str, Any]]]:
        answers = predictions(folder, path)
        return *_table.read(path, _table.encoding_of(path, settings["encoding"])), answers

    answered(inputs, found, settings["target"], likely=bool(settings["classes"]), rows=rows)
