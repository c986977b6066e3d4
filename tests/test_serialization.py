"""Files written and read in other ways: without bytes, only looked at, of another byte order."""

from __future__ import annotations

import fractions
import io
import pickle
import zipfile
from pathlib import Path

import pytest

import adjoint as ad


def test_bytes_of_storages_are_skipped(tmp_path: Path) -> None:
    path, full = tmp_path / "empty.pt", tmp_path / "full.pt"
    value = {"a": ad.ones(3), "b": [ad.arange(4), "name"]}
    ad.save(value, full)
    with ad.serialization.skip_data():
        ad.save(value, path)
        room = ad.load(full)
    assert path.stat().st_size == full.stat().st_size  # there is room for the bytes
    for found in (ad.load(path), room):
        assert found["a"].tolist() == [0.0] * 3
        assert found["b"][0].tolist() == [0] * 4
        assert (found["b"][0].dtype, found["b"][1]) == (ad.int64, "name")
    assert ad.load(full)["b"][0].tolist() == [0, 1, 2, 3]


def test_what_a_file_asks_for_is_listed_without_running_it(tmp_path: Path) -> None:
    path = tmp_path / "asks.pt"
    for protocol in (2, 4):
        with zipfile.ZipFile(path, "w") as archive:
            asked = [fractions.Fraction(1, 2), {1, 2}, fractions.Fraction(1, 3)]
            archive.writestr("x/data.pkl", pickle.dumps(asked, protocol))
        listed = ad.serialization.get_unsafe_globals_in_checkpoint
        assert listed(path) == ["fractions.Fraction"]
        with ad.serialization.safe_globals([fractions.Fraction]):
            assert listed(path) == []


def test_byte_order_of_files_that_do_not_say_it(tmp_path: Path) -> None:
    path, bare = tmp_path / "said.pt", tmp_path / "unsaid.pt"
    ad.save(ad.tensor([1], dtype=ad.int32), path)
    with zipfile.ZipFile(path) as said, zipfile.ZipFile(bare, "w") as unsaid:
        for name in said.namelist():
            if not name.endswith("byteorder"):
                unsaid.writestr(name, said.read(name))
    order = ad.serialization.LoadEndianness
    try:
        for chosen, want in ((None, 1), (order.BIG, 1 << 24), (order.LITTLE, 1)):
            ad.serialization.set_default_load_endianness(chosen)
            assert ad.serialization.get_default_load_endianness() is chosen
            assert ad.load(bare).item() == want
            assert ad.load(path).item() == 1
    finally:
        ad.serialization.set_default_load_endianness(None)


def test_arguments_that_nobody_knows_are_refused() -> None:
    file = io.BytesIO()
    ad.save([1], file)
    file.seek(0)
    with pytest.raises(TypeError, match="weight_only"):
        ad.load(file, weight_only=False)
    assert ad.load(file, encoding="latin1") == [1]
