"""What others publish, crafted: configurations of endless models, images that run programs, XML."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint.data.readers import png
from tests.hostile.parts import Case
from tests.hostile.published_readers import ANNOTATION, COCO, DIFFUSION, PUBLISHED_READERS, SMALL

PRIME = (1 << 61) - 1  # whole numbers that differ by it have the same hash


def config(kind: str, **changes: Any) -> Callable[[], bytes]:
    about = DIFFUSION if kind == "diffusion" else SMALL[kind][2]
    return lambda: json.dumps({**about, **changes}).encode()


CONFIGS: dict[str, dict[str, Callable[[], bytes]]] = {
    "bert": {
        "layers without end": config("bert", num_hidden_layers=10**9),
        "layers below 0": config("bert", num_hidden_layers=-1),
        "no heads": config("bert", num_attention_heads=0),
        "heads that do not divide": config("bert", num_attention_heads=3),
        "words without end": config("bert", vocab_size=2**40),
        "a wide inside": config("bert", intermediate_size=10**7),
        "a list as activation": config("bert", hidden_act=[]),
        "text as a small number": config("bert", layer_norm_eps="x"),
        "a truth as a size": config("bert", hidden_size=True),
    },
    "gpt2": {
        "layers without end": config("gpt2", n_layer=2**62),
        "half a head": config("gpt2", n_head=0.5),
        "positions without end": config("gpt2", n_positions=10**8),
        "a rate of 2": config("gpt2", resid_pdrop=2),
    },
    "llama": {
        "layers without end": config("llama", num_hidden_layers=10**9),
        "positions without end": config("llama", max_position_embeddings=10**8),
        "a width without end": config("llama", hidden_size=10**9),
        "no heads for keys": config("llama", num_key_value_heads=0),
        "rotations of 0": config("llama", rope_theta=0),
        "rotations beyond every float": config("llama", rope_theta=10**400),
        "rotations as a list": config("llama", rope_scaling=[1]),
        "rotations by text": config("llama", rope_scaling={"rope_type": "llama3", "factor": "x"}),
        "rotations without a passage": config(
            "llama", rope_scaling={"rope_type": "llama3", "high_freq_factor": 1.0}
        ),
        "rotations of positions beyond 64 bits": config(
            "llama",
            rope_scaling={"rope_type": "llama3", "original_max_position_embeddings": 10**30},
        ),
    },
    "diffusion": {
        "blocks without end": config("diffusion", layers_per_block=10**9),
        "no widths": config("diffusion", block_out_channels=[]),
        "a width of 0": config("diffusion", block_out_channels=[0, 32]),
        "widths without end": config("diffusion", block_out_channels=[32] * 10_000),
        "widths in a text": config("diffusion", block_out_channels="32"),
    },
}


def blank(width: int, height: int) -> bytes:
    """A picture of zeros that is a thousand times the file."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))  # fmt: skip

    about = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(height * (width + 1)), 9)
    return png.SIGNATURE + chunk(b"IHDR", about) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


EPS = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(touch owned) run\nshowpage\n"
)
IMAGES: dict[str, Callable[[], bytes]] = {
    "a program in PostScript": lambda: EPS,
    "a bomb": lambda: blank(9000, 9000),
    "nothing": lambda: b"",
    "no image": lambda: b"abc" * 100,
}


def laughs(encoding: str) -> bytes:
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 20}">' for i in range(1, 7))
    head = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE l [<!ENTITY a0 "{"x" * 999}">'
    return f"{head}{entities}]><annotation><b>&a6;</b></annotation>".encode(encoding)


VOC: dict[str, Callable[[], bytes]] = {
    "entities in entities": lambda: laughs("utf-8"),
    "entities of 16 bits": lambda: laughs("utf-16"),
    "a file of the machine": lambda: (
        b'<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>&f;</a>'
    ),
    "nested": lambda: b"<a>" * 100_000 + b"</a>" * 100_000,
    "empty elements": lambda: b"<a>" + b"<b/>" * 1_000_000 + b"</a>",
    "a cut": lambda: ANNOTATION[:-20],
    "an unknown encoding": lambda: ANNOTATION.replace(b'"1.0"', b'"1.0" encoding="klingon"'),
}


def coco(**changes: Any) -> Callable[[], bytes]:
    return lambda: json.dumps({**COCO, **changes}).encode()


COCOS: dict[str, Callable[[], bytes]] = {
    "nested": lambda: b"[" * 100_000,
    "a list": lambda: b"[]",
    "no text": lambda: b"\xff\xfe",
    "images that are a number": coco(images=5),
    "ids of one hash": coco(images=[{"id": i * PRIME, "file_name": "a"} for i in range(1, 20_000)]),
    "an id that is a list": coco(images=[{"id": [], "file_name": "a"}]),
    "ids of two kinds": coco(images=[{"id": 1, "file_name": "a"}, {"id": "1", "file_name": "a"}]),
    "a number as file": coco(images=[{"id": 1, "file_name": 5}]),
    "notes of one hash": coco(annotations=[{"image_id": i * PRIME} for i in range(1, 20_000)]),
    "an id of many digits": lambda: b'{"images": [{"id": ' + b"9" * 9000 + b', "file_name": "a"}]}',
}


def matrices(**found: Any) -> bytes:
    from scipy.io import savemat

    out = io.BytesIO()
    savemat(out, found, do_compression=True)
    return out.getvalue()


SVHN: dict[str, Callable[[], bytes]] = {
    "a bomb": lambda: matrices(X=np.zeros((32, 32, 3, 60_000), np.uint8), y=np.zeros(60_000)),
    "no labels": lambda: matrices(X=np.zeros((32, 32, 3, 4), np.uint8)),
    "other images": lambda: matrices(X=np.zeros((8, 8), np.uint8), y=np.zeros(4)),
    "texts": lambda: matrices(X=np.array(["a", "b"], object), y=np.zeros(4)),
    "nothing": lambda: b"",
}

PUBLISHED_CASES: dict[str, Case] = {
    f"{reader}: {name}": Case(reader, partial(lambda make: make(), make))
    for reader, cases in {
        **{f"{kind} config": cases for kind, cases in CONFIGS.items()},
        "memory png": IMAGES, "voc masks": IMAGES, "voc": VOC, "coco": COCOS, "svhn": SVHN,
    }.items()
    if reader in PUBLISHED_READERS  # what reads it is installed
    for name, make in cases.items()
}  # fmt: skip
