"""Sentences of your own: learns which label a text has, from a table with a column of each."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn
from adjoint.data import TensorDataset
from adjoint.engine.core.errors import did_you_mean
from adjoint.metrics import Accuracy
from adjoint.training.pictures import confusion_picture
from adjoint.training.recipes import _common, _resuming, _table
from adjoint.training.recipes._division import Samples, digest
from adjoint.training.recipes._results import answered, confusion, recognized, unseen

WIDTH = 64  # numbers that stand for a word
WORDS = 30_000  # words and pairs of words that it knows, the commonest
LENGTH = 300  # words that are read of a text
CLASSES = 50
BATCH = 256  # texts that are asked about at once
SHOWN = 5  # words that speak most for a label
SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# A letter of a script without spaces, a word, or a mark such as an exclamation mark.
WORD = re.compile(rf"[{SPACELESS}]|(?:(?![{SPACELESS}])\w)+(?:'\w+)?|[^\w\s]")


def words(text: str) -> list[str]:
    """The words of a text, and its pairs of neighbours, which know "not good" from "good".

    >>> words("Not good!")
    ['not', 'good', '!', 'not good', 'good !']
    """
    single = WORD.findall(text.lower().replace("\u2019", "'"))[:LENGTH]
    return single + [f"{a} {b}" for a, b in pairwise(single)]


def vocabulary(texts: Sequence[str]) -> list[str]:
    """The words to know, by how many texts have them; those of a single text tell nothing."""
    count = Counter(word for text in texts for word in dict.fromkeys(words(text)))
    return [word for word, often in count.most_common(WORDS) if often > 1]


def numbered(texts: Sequence[str], known: Sequence[str]) -> Any:
    """Texts as rows of words' numbers, from 1 on; 0 fills up, and words not known are left out."""
    place = {word: k for k, word in enumerate(known, 1)}
    rows = [[place[word] for word in words(text) if word in place] for text in texts]
    table = np.zeros((len(rows), max(map(len, rows), default=0) or 1), np.int64)
    for k, row in enumerate(rows):
        table[k, : len(row)] = row
    return ad.tensor(table)


def network(known: int, classes: int) -> nn.Module:
    """Numbers of words in, in any order; the mean of what stands for them; a score a class out."""
    return nn.Sequential(
        nn.EmbeddingBag(known + 1, WIDTH, mode="mean", padding_idx=0),
        nn.Dropout(0.2),
        nn.Linear(WIDTH, classes),
    )


def columns(path: str, names: list[str], rows: list[list[str]], chosen: Any) -> tuple[int, int]:
    """Which column holds the texts, and which the labels."""
    for option in ("text", "target"):
        asked = getattr(chosen, option)
        if asked is not None and asked not in names:
            close, have = did_you_mean(asked, names), ", ".join(names)
            raise ValueError(
                f"--{option}: {path} has no column {asked!r}{close or '.'} It has {have}"
            )
    if len(names) < 2:
        raise ValueError(f"{path}: the only column is {names[0]!r}; it takes one of texts and one "
                         "of labels")  # fmt: skip
    length = [sum(len(row[k]) for row in rows) for k in range(len(names))]
    kinds = [len({_table.alike(row[k]) for row in rows}) for k in range(len(names))]
    target = names.index(chosen.target) if chosen.target is not None else None
    free = [k for k in range(len(names)) if k != target]
    text = names.index(chosen.text) if chosen.text else max(free, key=length.__getitem__)
    if target is None:
        target = min((k for k in range(len(names)) if k != text), key=kinds.__getitem__)
    if text == target:
        raise ValueError(f"--text and --target are both {names[text]!r}; give one of each")
    return text, target


def table(chosen: argparse.Namespace) -> tuple[list[str], list[str], str, _table.Column]:
    """The texts, their labels, and the columns that they are of."""
    names, rows = _table.read(chosen.file, chosen.encoding)
    text, target = columns(chosen.file, names, rows, chosen)
    full = [row for row in rows if row[text].strip() and row[target].strip()]
    if len(full) < len(rows):
        print(f"left out {len(rows) - len(full)} of {len(rows)} rows, without text or label")
    labels = [row[target] for row in full]
    kinds = _table.kinds_of(names[target], labels, chosen.exact)
    if not 2 <= len(kinds) <= CLASSES:
        raise ValueError(
            f"{chosen.file}: the column {names[target]!r} has {len(kinds)} kinds of label; from 2 "
            f"to {CLASSES} can be told apart. Choose another with --target."
        )
    column = _table.Column(names[target], "choice", kinds, exact=chosen.exact)
    return [row[text] for row in full], labels, names[text], column


def main(arguments: Sequence[str] = ()) -> int:
    """Train on four fifths of the texts, test on the rest."""
    parser = _common.options("sentences", __doc__, epochs=20, batch=32, lr=1e-2)
    parser.add_argument("file", help="a table with a column of texts and one of labels")
    parser.add_argument(
        "--target", help="the column of labels; that of the fewest kinds unless given"
    )
    parser.add_argument("--text", help="the column of texts; the longest unless given")
    parser.add_argument("--exact", action="store_true",
                        help="labels that differ in case or spaces alone are several")  # fmt: skip
    parser.add_argument("--encoding", default="utf-8-sig", help="of the file, such as latin-1")
    chosen = _common.begin(parser, arguments, "sentences", ["target", "text", "exact"])
    texts, labels, column, held = table(chosen)
    target, kinds = held.name, list(held.kinds)
    _resuming.check_meaning(chosen, classes=kinds, text=column, target=target)
    samples = Samples([digest(_table.alike(text).encode()) for text in texts])
    division = _resuming.split(chosen, samples, "rows")
    known = _resuming.carried_over(chosen, "words", vocabulary([texts[k] for k in division.train]))
    if not known:
        raise ValueError(f"{chosen.file}: no word of {column!r} is in two texts. Give more rows.")
    y = ad.tensor([int(held.number(label, ".") or 0) for label in labels])
    x = numbered(texts, known)
    often = Counter(y.tolist())
    each = ", ".join(f"{name} {often[k]}" for k, name in enumerate(kinds))
    print(f"{len(texts)} rows; {target} ({each}) from {column}; {len(known):,} words and pairs")
    long = sum(len(WORD.findall(text)) > LENGTH for text in texts)
    if long:
        print(f"{long} texts are longer than {LENGTH} words, of which the rest is not read")
    model = network(len(known), len(kinds))
    settings = {"classes": kinds, "words": known, "text": column, "target": target,
                "encoding": chosen.encoding}  # fmt: skip
    train, test = ad.tensor(division.train), ad.tensor(division.test)
    trainer = _common.fit(
        model, nn.CrossEntropyLoss(), TensorDataset(x[train], y[train]),
        TensorDataset(x[test], y[test]), chosen, [Accuracy()], settings=settings,
    )  # fmt: skip
    guesses = trainer.predict(x[test].split(BATCH)).argmax(dim=1)
    counts = confusion(y[test].tolist(), guesses.tolist(), len(kinds))
    picture = confusion_picture(
        Path(chosen.folder) / "sentences.png", trainer.history, counts, kinds
    )
    most = counts.sum(1).max() / counts.sum()
    said = (
        f"{target}: accuracy {np.trace(counts) / counts.sum():.1%} on "
        f"{unseen(len(guesses), 'text', 'texts')} (always the commonest: {most:.1%})"
        + recognized(counts, kinds, "It needs more texts of the others.")
        + speaking(model, known, kinds)
        + _common.which_epoch(trainer, "more texts do")
    )
    steps = [_common.command("predict", chosen.folder, texts[division.test[0]][:40].strip())]
    steps += [_common.command("predict", chosen.folder, "NEW.csv") + " > answers.csv   # a table"]
    if _common.still_learns(trainer):
        steps.append(_common.longer(trainer, chosen) + "   # go on")
    steps.append(f"{__file__}: the program that did this")
    _common.finish(said, chosen.folder, picture, steps)
    return 0


def speaking(model: Any, known: Sequence[str], kinds: Sequence[str]) -> str:
    """The words that speak most for each of the first labels."""
    with ad.no_grad():
        scores = model[2](model[0].weight[1:])
        scores = scores - scores.mean(dim=1, keepdim=True)
    said = ""
    for k, name in list(enumerate(kinds))[:SHOWN]:
        best = scores[:, k].argsort(descending=True)[:SHOWN].tolist()
        said += f"\n  for {name} speak  {', '.join(known[i] for i in best)}"
    return said


def restored(folder: str) -> nn.Module:
    """The network that was trained into a folder; it takes what `numbered(texts, words)` gives."""
    settings, weights = _common.kept_settings(folder, "sentences")
    model = network(len(settings["words"]), len(settings["classes"])).eval()
    model.load_state_dict(weights)
    return model


def predictions(folder: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """What a trained model says of texts.

    Args:
        folder: where it was trained into.
        texts: the texts themselves.

    Returns:
        For each the likeliest label, by the name of its column, its `probability`, and
        `probabilities`, by label.
    """
    if isinstance(texts, str):
        raise TypeError("predictions: wants a list of texts, received one. Write [text].")
    settings, _ = _common.kept_settings(folder, "sentences")
    model, classes = restored(folder), settings["classes"]
    likely: list[list[float]] = []
    with ad.no_grad():
        for k in range(0, len(texts), BATCH):
            some = numbered(texts[k : k + BATCH], settings["words"])
            likely += model(some).softmax(-1).tolist()
    answers = []
    for each in likely:
        best = max(range(len(classes)), key=each.__getitem__)
        answers.append({settings["target"]: classes[best], "probability": each[best],
                        "probabilities": dict(zip(classes, each, strict=True))})  # fmt: skip
    return answers


def predict(folder: str, inputs: Sequence[str], rows: bool = False) -> None:
    """Print a label for each text: those given, or those of the column of a table."""
    settings, _ = _common.kept_settings(folder, "sentences")
    column = settings["text"]

    def found(path: str) -> tuple[list[str], list[list[str]], list[dict[str, Any]]]:
        if not Path(path[:200]).is_file():
            if re.fullmatch(r"\S+\.(csv|tsv|txt)", path):
                raise _common.no_file(path)
            return [column], [[path]], predictions(folder, [path])
        names, cells = _table.read(path, _table.encoding_of(path, settings["encoding"]))
        if column not in names:
            close = did_you_mean(column, names)
            raise ValueError(
                f"{path}: it lacks the column {column!r}, which holds the texts{close}"
            )
        place = names.index(column)
        return names, cells, predictions(folder, [row[place] for row in cells])

    answered(inputs, found, settings["target"], likely=True, rows=rows)
