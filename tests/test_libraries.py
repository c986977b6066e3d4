"""Where a library does the work when it is installed, and Adjoint otherwise: both give the same."""

from __future__ import annotations

import io
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import adjoint as ad
from adjoint.data.readers import png
from adjoint.data.readers.images import read_image, rgb
from adjoint.engine.core.availability import libraries
from adjoint.io.safetensors import load_file, save_file
from adjoint.models import WordPieceTokenizer
from adjoint.models.wordpiece import SPECIAL

RNG = np.random.default_rng(0)


def test_a_missing_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, extra in libraries.EXTRAS.items():
        monkeypatch.setitem(sys.modules, library, None)
        assert libraries.find(library) is None
        with pytest.raises(ModuleNotFoundError, match=rf"thing needs .*adjoint\[{extra}\]"):
            libraries.need(f"{library}.part", "thing")


# -- images -----------------------------------------------------------------------------------


def image_of(mode: str) -> Image.Image:
    base = Image.fromarray(RNG.integers(0, 256, (7, 5, 3), np.uint8))
    if mode == "I;16":
        return Image.fromarray(RNG.integers(0, 1 << 16, (7, 5), np.uint16))
    return base.convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_png_files_read_alike(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.png"
    image_of(mode).save(path)
    theirs, their_rgb = read_image(path), rgb(str(path))
    monkeypatch.setitem(sys.modules, "PIL", None)
    ours = read_image(path)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(rgb(str(path)), their_rgb)


@pytest.mark.parametrize("suffix", [".ppm", ".pgm"])
def test_netpbm_files_read_alike(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"x{suffix}"
    image_of("RGB" if suffix == ".ppm" else "L").save(path)
    theirs = read_image(path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    np.testing.assert_array_equal(read_image(path), theirs)


def test_pillow_reads_what_the_fallback_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jpg"
    image_of("RGB").save(path)
    assert read_image(path).shape == (7, 5, 3)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RuntimeError, match=r"adjoint\[images\]"):
        read_image(path)


def test_deep_colour_keeps_its_bits(tmp_path: Path) -> None:
    """Pillow would give 8 of the 16 bits."""
    data = bytearray(png.encode(np.zeros((1, 2, 3), np.uint8)))
    assert not png.is_deep_colour(bytes(data))
    data[24] = 16
    assert png.is_deep_colour(bytes(data))


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2), (4, 3, 3), (4, 3, 4)])
def test_pillow_reads_what_we_write(shape: tuple[int, ...]) -> None:
    pixels = RNG.integers(0, 256, shape, np.uint8)
    for level in (0, 9):
        found = np.asarray(Image.open(io.BytesIO(png.encode(pixels, level))))
        np.testing.assert_array_equal(found, pixels)


def test_write_png(tmp_path: Path) -> None:
    for channels in (1, 3):
        x = ad.from_numpy(RNG.integers(0, 256, (channels, 4, 5), np.uint8))
        path = tmp_path / f"{channels}.png"
        ad.vision.io.write_png(x, str(path), compression_level=9)
        assert ad.equal(ad.vision.io.read_image(path), x)
    for bad in (ad.zeros(1, 4, 5), ad.zeros(2, 4, 5, dtype=ad.uint8)):
        with pytest.raises(RuntimeError, match="write_png"):
            ad.vision.io.write_png(bad, str(tmp_path / "bad.png"))
    with pytest.raises(RuntimeError, match="compression_level"):
        ad.vision.io.write_png(x, str(tmp_path / "bad.png"), 10)


# -- word pieces ------------------------------------------------------------------------------

PIECES = [
    *SPECIAL, *"abcdefghijklmnopqrstuvwxyzß北京σςéÉñ012.,!?-_$'’", *(f"##{c}" for c in "abcdeghinorstßσé01"),
    "the", "##ing", "un", "##able", "THE", "The",
]  # fmt: skip
VOCABULARY = {piece: number for number, piece in enumerate(dict.fromkeys(PIECES))}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"lowercase": False},
    {"strip_accents": False},
    {"lowercase": False, "strip_accents": True},
    {"split_ideographs": False},
    {"clean_text": False},
    {"max_word": 3},
    {"special": (*SPECIAL, "the", "un")},
]
TOKENIZERS = [WordPieceTokenizer(VOCABULARY, **options) for options in OPTIONS]
LETTERS = st.text(
    st.sampled_from("abcTHEéÉñß北京ΣσςİıA\u0308 \t\n\r\u00a0\u3000\u200b\x07.,!?-_$'’…[]012€")
)


def is_old(character: str) -> bool:
    """In Unicode since 2002 and of the same kind: the library's tables are not Python's."""
    kind = unicodedata.category(character)
    return kind != "Cn" and unicodedata.ucd_3_2_0.category(character) == kind


ALPHABET = [
    c for c in map(chr, range(32, 0x3000)) if unicodedata.category(c)[0] != "C" and is_old(c)
]
ANY = st.text(st.sampled_from(ALPHABET))
TEXTS = st.lists(st.one_of(LETTERS, ANY, st.sampled_from(PIECES)), max_size=6).map("".join)


@given(TEXTS, st.sampled_from(range(len(OPTIONS))))
def test_word_pieces_are_those_of_the_library(text: str, which: int) -> None:
    tokenizer = TOKENIZERS[which]
    assert tokenizer._library is not None
    assert tokenizer.plain_numbers(text) == tokenizer.numbers(text)


def test_half_a_character_is_no_error() -> None:
    assert TOKENIZERS[0].numbers("a \ud800 b") == TOKENIZERS[0].plain_numbers("a \ud800 b")


def test_word_pieces_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    plain = WordPieceTokenizer(VOCABULARY)
    assert plain._library is None
    assert plain.encode("The unable!") == TOKENIZERS[0].encode("The unable!")


# -- safetensors ------------------------------------------------------------------------------

KINDS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def arrays() -> dict[str, Any]:
    made = {kind: RNG.integers(0, 2, (3, 2)).astype(kind) for kind in KINDS}
    return made | {"scalar": np.array(1.5), "empty": np.zeros((0, 4), np.float32)}


def test_safetensors_read_what_the_library_wrote(tmp_path: Path) -> None:
    path, want = tmp_path / "x.safetensors", arrays()
    safetensors.numpy.save_file(want, path, {"by": "them"})
    for mapped in (False, True):
        found = load_file(path, mmap=mapped)
        assert found.keys() == want.keys()
        for name, array in want.items():
            np.testing.assert_array_equal(found[name].numpy(), array)
            assert found[name].numpy().dtype == array.dtype


def test_the_library_reads_our_safetensors(tmp_path: Path) -> None:
    path, want = tmp_path / "x.safetensors", arrays()
    save_file({name: ad.tensor(array) for name, array in want.items()}, path, {"by": "us"})
    found = safetensors.numpy.load_file(path)
    assert found.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_array_equal(found[name], array)
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata() == {"by": "us"}


def test_mapped_files_are_not_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"w": ad.ones(1 << 16)}, path)
    base: Any = load_file(path, mmap=True)["w"].numpy()
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert type(base).__name__ == "mmap"
