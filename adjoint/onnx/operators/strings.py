"""Strings: joined, split, normalised, matched, counted. They are arrays of objects, on the host."""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.reading import OnnxError
from adjoint.onnx.table import operator
from adjoint.onnx.types import Value, array_of


@operator("StringConcat")
def string_concat(a: Any, b: Any) -> Any:
    """Strings joined in pairs."""
    return np.asarray(np.add(a.astype(object), b.astype(object)), dtype=object)


@operator("StringSplit")
def string_split(x: Any, *, delimiter: str = "", maxsplit: int | None = None) -> tuple[Any, Tensor]:
    """Parts of strings, filled up with empty ones, and how many each has."""
    most = -1 if maxsplit is None else maxsplit
    parts = [str(s).split(delimiter or None, most) for s in x.ravel()]
    counts = np.array([len(p) for p in parts], dtype=np.int64).reshape(x.shape)
    width = max([len(p) for p in parts], default=0)
    table = np.empty((len(parts), width), dtype=object)
    for k, row in enumerate(parts):
        table[k] = [*row, *[""] * (width - len(row))]
    return table.reshape(*x.shape, width), ad.tensor(counts)


@operator("StringNormalizer")
def string_normalizer(
    x: Any,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
    stopwords: list[str] | None = None,
) -> Any:
    """Strings without stop words, in one case; at least one string stays."""
    change = {"NONE": lambda s: s, "LOWER": str.lower, "UPPER": str.upper}[case_change_action]
    fold = (lambda s: s) if is_case_sensitive else str.lower
    stops = {fold(word) for word in stopwords or []}
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    if rows.shape[0] != 1:
        raise OnnxError(f"onnx: StringNormalizer takes [C] or [1, C]; received {x.shape}.")
    words = [change(_plain(s)) for s in rows[0] if fold(s) not in stops and s] or [""]
    return np.array(words, dtype=object).reshape((-1,) if x.ndim == 1 else (1, -1))


def _plain(text: str) -> str:
    """Without accents."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


@operator("RegexFullMatch")
def regex_full_match(x: Any, *, pattern: str) -> Tensor:
    """Whether all of a string matches a pattern."""
    expression = re.compile(pattern)
    flags = [expression.fullmatch(s) is not None for s in x.ravel()]
    return ad.tensor(np.array(flags, dtype=bool).reshape(x.shape))


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Value,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int] | None = None,
    pool_strings: list[str] | None = None,
    weights: list[float] | None = None,
) -> Tensor:
    """How often n-grams of a pool occur in each row, or whether, perhaps weighed."""
    pool: list[Any] = list(pool_strings or pool_int64s or [])
    where: dict[tuple[Any, ...], int] = {}
    bounds = [*ngram_counts, len(pool)]
    place = itertools.count()
    for n, (start, end) in enumerate(itertools.pairwise(bounds), 1):
        for k in range(start, end, n):
            where[tuple(pool[k : k + n])] = next(place)
    array = np.asarray(array_of(x))
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    out = np.zeros((rows.shape[0], max(ngram_indexes) + 1), dtype=np.float32)
    for row, counts in zip(rows.tolist(), out, strict=True):
        for n in range(min_gram_length, max_gram_length + 1):
            for skip in range(1, max_skip_count + 2) if n > 1 else (1,):
                for start in range(len(row) - (n - 1) * skip):
                    gram = where.get(tuple(row[start : start + (n - 1) * skip + 1 : skip]))
                    if gram is not None:
                        counts[ngram_indexes[gram]] += 1
    scale = np.ones(out.shape[1], dtype=np.float32)
    if weights is not None:
        scale[ngram_indexes] = weights
    result = {"TF": out, "IDF": (out > 0) * scale, "TFIDF": out * scale}[mode]
    return ad.tensor(result.reshape((*array.shape[:-1], out.shape[1])).astype(np.float32))
