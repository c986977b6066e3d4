"""Every reader of files: a valid sample, how it is read, and how its parts are taken apart."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import struct
import zlib
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.data.readers import CIFAR10, CSVDataset, png, read_idx, read_image
from adjoint.engine.backends.disk import store
from adjoint.engine.compiler.package import image as images
from adjoint.io import load_checkpoint, safetensors, save_checkpoint
from adjoint.models import WordPieceTokenizer
from adjoint.models.weights import read_weights
from adjoint.vision.pictures import default_loader
from tests.hostile.model_readers import MODEL_READERS
from tests.hostile.parts import Part, Reader, by_file, gzip_parts, headed, whole, zip_parts
from tests.hostile.published_readers import PUBLISHED_READERS

VALUE: Any = {
    "weights": OrderedDict(a=ad.arange(60.0).reshape(3, 20), b=ad.ones(4, dtype=ad.bool)),
    "list": [1, 2.5, None, True, "text", b"bytes", 2**70, (1, (2, 3)), {1, 2}, 300, -5],
    "view": ad.arange(12)[2:8:2],
    (1, "key"): ad.nn.Parameter(ad.ones(2)),
    "size": ad.Size((2, 3)),
    "dtype": ad.float16,
}


def png_parts(data: bytes) -> list[Part]:
    header = data[16:29]
    lines = zlib.decompress(png._chunks(data)[2][0])

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    def whole(head: bytes, pixels: bytes) -> bytes:
        body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
        return png.SIGNATURE + body

    return [(header, lambda h: whole(h, lines)), (lines, lambda p: whole(header, p))]


def legacy(value: Any) -> bytes:
    """The layout before PyTorch 1.6."""
    out = io.BytesIO()
    ad.save(value, out, _use_new_zipfile_serialization=False)
    return out.getvalue()


def idx() -> bytes:
    return b"\0\0\x08\x02" + struct.pack(">2I", 6, 7) + bytes(range(42))


def picture(form: str) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    pixels = np.arange(24 * 20 * 3, dtype=np.uint8).reshape(24, 20, 3)
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


def cifar_pickle() -> bytes:
    value = {b"data": np.arange(2 * 3072).astype(np.uint8).reshape(2, 3072), b"labels": [1, 2]}
    return pickle.dumps({k.decode(): v for k, v in value.items()}, 2)


def read_cifar(path: Path) -> Any:
    return CIFAR10(path.parent, train=False)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{i}" for i in range(40))]


def tokenizer_json() -> bytes:
    added = [
        {"id": i, "content": w, "lstrip": False, "rstrip": False, "single_word": False}
        for i, w in enumerate(WORDS[:5])
    ]
    kinds = {"lowercase": True, "strip_accents": None, "handle_chinese_chars": True}
    about = {
        "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, **kinds},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {w: i for i, w in enumerate(WORDS)},
        },
    }
    return json.dumps(about).encode()


def kept_program() -> bytes:
    image = images.ProgramImage(
        words=np.arange(20), arena=4096, inside=np.array([1, 2]),
        patches={"input 0": [(3, 0), (4, 8)], "output 1": [(5, 0)]}, numbers={2: [(6, 1)]},
        status=[(7, 0)], symbols=[(8, "a:b:c:d")], faults=[("RuntimeError", "a message")],
        segments=[[("f", 0, True, 0), ("", 8, False, 1)], None], results=[(0, (2, 3), "float32")],
        parallel=True, work=1, once=2, details=lambda: {"report": [], "memory": {"largest": []}},
    )  # fmt: skip
    return images.to_bytes(image, ["ab" * 32])


def read_kept_program(path: Path) -> Any:
    """What `compiler.native` does: no image is a miss."""
    try:
        images.from_bytes(path.read_bytes())
    except ValueError as error:
        raise RuntimeError(f"{path}: a miss: {error}") from None


KEY = "ab" * 32


def read_entry(path: Path) -> Any:
    """What lies in the cache's folder under a key."""
    cache_ = store.DiskStore(path.parent, 1 << 20)
    cache_.put(KEY, b"")
    assert cache_.folder is not None
    (place,) = Path(cache_.folder).rglob(f"{KEY[2:]}*")
    place.write_bytes(path.read_bytes())
    found = cache_.get(KEY)  # removes what is damaged
    if found != b"code" * 20 and found is not None:
        raise AssertionError("a damaged entry was given out")
    if found is None:
        raise RuntimeError(f"{path}: a miss")


def entry() -> bytes:
    return store._head(KEY, b"code" * 20) + b"code" * 20


def read_checkpoint(path: Path) -> Any:
    model = ad.nn.Linear(2, 3)
    before = ad.io.rng_state()
    try:
        return load_checkpoint(path, model=model)
    finally:
        ad.io.set_rng_state(before)


def read_index(path: Path) -> Any:
    """The pieces it names are not there."""
    with contextlib.suppress(FileNotFoundError):
        read_weights(path.parent)


def read_objects(path: Any) -> Any:
    """Whole modules of classes that the program declares."""
    with ad.serialization.safe_globals([ad.nn.Sequential, ad.nn.Linear, ad.nn.ReLU]):
        return ad.load(path)


@cache
def model() -> Any:
    return ad.nn.Sequential(ad.nn.Linear(4, 5), ad.nn.ReLU(), ad.nn.Linear(5, 2))


def sized_graph(path: Any) -> None:
    with ad.Graph() as graph:
        x = ad.placeholder(("rows", "columns"), name="x")
        graph.set_results(x.reshape(-1, 2, x.shape[1]).mean(1) / x.shape[0])
    graph.save(path)


TABLE = b"a,b,c\n" + b"".join(b"%d,%d.5,word%d\n" % (i, i, i % 3) for i in range(30))

READERS: dict[str, Reader] = {
    "pt": Reader("a.pt", by_file(lambda p: ad.save(VALUE, p)), ad.load, zip_parts),
    "pt objects": Reader(
        "a.pt",
        by_file(lambda p: ad.save(model(), p, pickle_module=pickle)),
        read_objects,
        zip_parts,
    ),
    "pt mapped": Reader(
        "a.pt", by_file(lambda p: ad.save(VALUE, p)), lambda p: ad.load(p, mmap=True), zip_parts
    ),
    "legacy": Reader("a.pt", cache(lambda: legacy(VALUE)), ad.load, whole),
    "safetensors": Reader(
        "a.safetensors",
        by_file(lambda p: safetensors.save_file({"w": ad.ones(3, 4), "b": ad.ones(3)}, p, {"k": "v"})),
        safetensors.load_file,
        headed,
    ),
    "graph": Reader(
        "a.graph", by_file(lambda p: model().to_graph(ad.ones(1, 4)).save(p)), ad.Graph.load, zip_parts
    ),
    "graph of any size": Reader("a.graph", by_file(sized_graph), ad.Graph.load, zip_parts),
    "checkpoint": Reader(
        "a.pt", by_file(lambda p: save_checkpoint(p, model=ad.nn.Linear(2, 3), epoch=3)),
        read_checkpoint, zip_parts, named=False,
    ),
    "weights": Reader(
        "model.bin", by_file(lambda p: ad.save({"w": ad.ones(2)}, p)), read_weights, zip_parts
    ),
    "index": Reader(
        "model.safetensors.index.json",
        lambda: json.dumps({"weight_map": {"a": "b.safetensors", "c": "d.safetensors"}}).encode(),
        read_index, whole,
    ),
    "idx": Reader("a.idx", idx, read_idx, whole),
    "idx.gz": Reader("a.idx.gz", cache(lambda: gzip.compress(idx())), read_idx, gzip_parts),
    "png": Reader("a.png", cache(lambda: picture("PNG")), read_image, png_parts),
    "npy": Reader("a.npy", by_file(lambda p: np.save(p, np.ones((4, 5, 3), "f4")), "a.npy"), read_image),
    "ppm": Reader("a.ppm", cache(lambda: picture("PPM")), read_image),
    "jpeg": Reader("a.jpg", cache(lambda: picture("JPEG")), read_image),
    "bmp": Reader("a.bmp", cache(lambda: picture("BMP")), read_image),
    "tiff": Reader("a.tif", cache(lambda: picture("TIFF")), read_image),
    "vision": Reader("a.png", cache(lambda: picture("PNG")), default_loader, png_parts),
    "csv": Reader("a.csv", lambda: TABLE, lambda p: CSVDataset(p, "c"), whole),
    "cifar": Reader("test_batch.bin", lambda: bytes(2 * 3073), read_cifar, whole),
    "cifar pickle": Reader("test_batch", cache(cifar_pickle), read_cifar, whole),
    "vocab": Reader(
        "vocab.txt", lambda: "\n".join(WORDS).encode(), WordPieceTokenizer.from_pretrained, whole, named=False
    ),
    "tokenizer": Reader("tokenizer.json", tokenizer_json, WordPieceTokenizer.from_pretrained, whole, named=False),
    "program": Reader("program", cache(kept_program), read_kept_program, headed),
    "entry": Reader("entry", entry, read_entry, whole),
    **MODEL_READERS,
    **PUBLISHED_READERS,
}  # fmt: skip
