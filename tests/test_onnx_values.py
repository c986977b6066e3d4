"""ONNX of what has no fixed size or no real numbers: masks, nonzero, unique, transforms."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F
from adjoint.vision.ops import MultiScaleRoIAlign, batched_nms, nms, roi_align

onnx = pytest.importorskip("onnx")

from adjoint.onnx import OnnxError, export  # noqa: E402

ROWS: list[dict[int, str]] = [{0: "n"}]
LAYER = nn.Linear(5, 3)
WINDOW = ad.hann_window(16)
FILTER = ad.randn(8, 5, 2)


def written_back(x: ad.Tensor) -> ad.Tensor:
    rows = ad.nonzero(x[:, 0] > 0).squeeze(1)
    y = ad.zeros_like(x)
    y[rows] = LAYER(x[rows]).sum(1, keepdim=True)
    return y


def coordinates(x: ad.Tensor) -> ad.Tensor:
    row, column = ad.where(x > 0)
    return row * 10 + column


# Each is compared at several sizes, and with values of which all, some or none are picked.
PICKED: dict[str, Any] = {
    "nonzero": lambda x: ad.nonzero(x > 0),
    "mask": lambda x: x[x > 0] * 2,
    "rows": lambda x: LAYER(x[x[:, 0] > 0]),
    "written back": written_back,
    "coordinates": coordinates,
    "joined": lambda x: ad.cat([x[x > 0], x[x <= 0]]),
    "twice": lambda x: x[x > 0] * (x * 2)[x > 0],
    "softmax": lambda x: F.softmax(x[x > 0], 0),
    "sorted": lambda x: ad.sort(x[x > 0]).values,
    "mean": lambda x: x[x > 0].mean(),
    "columns": lambda x: ad.masked_select(x, x > 0.5).reshape(-1, 1) @ ad.ones(1, 4),
    "second": lambda x: x[None][:, x.sum(1) > 0],
    "count": lambda x: ad.nonzero(x > 0).shape[0] * x,
    "numbered": lambda x: ad.arange(ad.nonzero(x > 0).shape[0]),
    "unique": lambda x: ad.unique((x * 2).round().long(), return_inverse=True, return_counts=True),
    "unique rows": lambda x: ad.unique(x.round(), dim=0),
}


@pytest.mark.parametrize("name", PICKED)
def test_sizes_that_values_decide(name: str) -> None:
    export(PICKED[name], (ad.randn(4, 5),), dynamic=ROWS)


def by_number(x: ad.Tensor) -> ad.Tensor:
    y = x[x > 0]
    return ad.zeros(1) if y.numel() == 0 else y.sum()


def a_loop(x: ad.Tensor) -> ad.Tensor:
    total = x.sum()
    for k in range(ad.nonzero(x > 0).shape[0]):
        total = total + k
    return total


@pytest.mark.parametrize(
    "decides",
    [
        by_number,
        a_loop,
        lambda x: x * float(ad.nonzero(x > 0).shape[0]),
        lambda x: x[x[:, 0] > 0].squeeze(),
    ],
)
def test_models_that_go_by_the_number_are_refused(decides: Any) -> None:
    with pytest.raises(OnnxError, match="how many elements"):
        export(decides, (ad.randn(4, 5),), dynamic=ROWS)


def test_models_that_hold_for_one_number_are_refused() -> None:
    with pytest.raises(OnnxError, match="how many elements"):
        export(lambda x: x[x > 0] + ad.ones(7), (ad.ones(7, 1),))


def some_boxes(count: int) -> ad.Tensor:
    corners = ad.rand(count, 2) * 50
    return ad.cat([corners, corners + ad.rand(count, 2) * 30 + 1], 1)


def best_five(boxes: ad.Tensor, scores: ad.Tensor) -> Any:
    kept = nms(boxes, scores, 0.4)[:5]
    return boxes[kept], scores[kept], scores[nms(boxes, scores, 0.1)[-3:]]


def by_class(boxes: ad.Tensor, scores: ad.Tensor) -> ad.Tensor:
    sure = scores > 0.2
    boxes, scores = boxes[sure], scores[sure]
    return boxes[batched_nms(boxes, scores, (scores * 10).long() % 3, 0.5)]


@pytest.mark.parametrize("detects", [best_five, by_class])
def test_boxes_that_are_kept(detects: Any) -> None:
    program = export(detects, (some_boxes(20), ad.rand(20)), dynamic=[{0: "n"}, {0: "n"}])
    assert "NonMaxSuppression" in {node.op_type for node in program.model_proto.graph.node}


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, -1])
def test_regions(ratio: int, aligned: bool) -> None:
    def pooled(x: ad.Tensor, boxes: ad.Tensor) -> ad.Tensor:
        return roi_align(x, [boxes], (3, 4), 0.25, ratio, aligned)

    program = export(pooled, (ad.randn(1, 2, 24, 24), some_boxes(6)), dynamic=[None, {0: "n"}])
    assert "RoiAlign" in {node.op_type for node in program.model_proto.graph.node}


def test_regions_of_a_pyramid() -> None:
    pool = MultiScaleRoIAlign(["a", "b"], 3, 2, canonical_scale=32, canonical_level=3)

    def pooled(a: ad.Tensor, b: ad.Tensor, boxes: ad.Tensor) -> ad.Tensor:
        return pool({"a": a, "b": b}, [boxes], [(96, 96)])

    levels = ad.randn(1, 2, 24, 24), ad.randn(1, 2, 12, 12)
    export(pooled, (*levels, some_boxes(6)), dynamic=[None, None, {0: "n"}])


def rotary(x: ad.Tensor) -> ad.Tensor:
    pairs = ad.view_as_complex(x.reshape(x.shape[0], -1, 2))
    turned = pairs * ad.polar(ad.ones(32), ad.arange(32.0))
    return ad.view_as_real(turned).flatten(1)


def filtered(x: ad.Tensor) -> ad.Tensor:
    waves = ad.fft.rfft2(x.reshape(-1, 8, 8), norm="ortho") * ad.view_as_complex(FILTER)
    return ad.fft.irfft2(waves, s=(8, 8), norm="ortho")


def stft(x: ad.Tensor) -> ad.Tensor:
    return ad.stft(x, 16, 4, window=WINDOW, return_complex=True)


COMPLEX: dict[str, Any] = {
    "rfft": lambda x: ad.fft.rfft(x).abs(),
    "odd": lambda x: ad.fft.irfft(ad.fft.rfft(x[:, :15]) * 2, n=15),
    "scaled": lambda x: (ad.fft.rfft(x, norm="forward") / (1 + 2j)).imag,
    "stft": lambda x: stft(x).abs(),
    "istft": lambda x: ad.istft(stft(x), 16, 4, window=WINDOW),
    "shifted": lambda x: ad.fft.fftshift(ad.fft.fftn(x)).imag,
    "mixed": lambda x: ad.fft.fft(ad.fft.fft(x, dim=-1), dim=-2).real,
    "products": lambda x: (ad.complex(x, 2 * x) @ ad.complex(x, -x).mT).abs(),
    "exponential": lambda x: ad.exp(1j * x).real + ad.polar(x.abs(), x).imag,
    "rotary": rotary,
    "filtered": filtered,
}


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_on_the_way(name: str, opset: int) -> None:
    export(COMPLEX[name], (ad.randn(2, 64),), dynamic=ROWS, opset_version=opset)


class Positions(nn.Module):
    """Keeps a table that it computes at its first call, as LeViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(ad.randn(2, 6))
        self.tables: dict[str, ad.Tensor] = {}

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        if "cpu" not in self.tables:
            self.tables["cpu"] = self.bias[:, ad.tensor([5, 0, 3])]
        return x[:, None] + self.tables["cpu"]


def test_tables_that_a_model_keeps() -> None:
    model = Positions().eval()
    export(model, (ad.randn(2, 3),), dynamic=ROWS)
    assert model(ad.zeros(1, 3)).isfinite().all()


def test_complex_numbers_at_the_ends_are_refused() -> None:
    with pytest.raises(OnnxError, match="view_as_real"):
        export(ad.fft.rfft, (ad.randn(2, 8),))
    with pytest.raises(OnnxError, match="cumsum"):
        export(lambda x: ad.fft.rfft(x).cumsum(0).abs(), (ad.randn(2, 8),))
