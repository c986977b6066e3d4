"""Wrong shapes into a layer: the error names the layer, its options and what it was given."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn

WRONG: list[tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = [
    (lambda: nn.Linear(3, 4), [(2, 5)]),
    (lambda: nn.Bilinear(3, 4, 2), [(2, 3), (2, 5)]),
    (lambda: nn.Conv1d(3, 4, 3), [(2, 3, 2)]),
    (lambda: nn.Conv2d(3, 4, 3), [(2, 5, 8, 8)]),
    (lambda: nn.ConvTranspose2d(3, 4, 3), [(2, 5, 8, 8)]),
    (lambda: nn.BatchNorm2d(3), [(1, 3, 1, 1)]),
    (lambda: nn.InstanceNorm2d(3), [(2, 5)]),
    (lambda: nn.LayerNorm((3, 4)), [(4,)]),
    (lambda: nn.GroupNorm(2, 4), [(2, 5, 4)]),
    (lambda: nn.RMSNorm(3), [(2, 5)]),
    (lambda: nn.MaxPool2d(5), [(2, 2, 3, 3)]),
    (lambda: nn.AvgPool1d(2), [(2,)]),
    (lambda: nn.AdaptiveAvgPool2d(2), [(2,)]),
    (lambda: nn.ReflectionPad1d(4), [(1, 2, 3)]),
    (lambda: nn.PixelShuffle(2), [(1, 3, 2, 2)]),
    (lambda: nn.Fold((4, 4), 2), [(1, 5, 9)]),
    (lambda: nn.Upsample(None, 2, "bilinear"), [(2, 2, 4)]),
    (lambda: nn.GLU(), [(3, 5)]),
    (lambda: nn.PReLU(3), [(2, 4)]),
    (lambda: nn.Embedding(5, 3), [(2,)]),
    (lambda: nn.GRU(3, 4), [(2, 2, 3), (1, 3, 4)]),
    (lambda: nn.LSTMCell(3, 4), [(2, 5)]),
    (lambda: nn.MultiheadAttention(8, 2), [(2, 3, 7)] * 3),
    (lambda: nn.Transformer(8, 2, 1, 1, 8), [(2, 3, 7), (2, 3, 8)]),
    (lambda: nn.CosineSimilarity(), [(2, 3), (2, 4)]),
    (lambda: nn.BCEWithLogitsLoss(), [(2, 3), (2,)]),
    (lambda: nn.TripletMarginLoss(), [(2, 3), (2, 4), (2, 3)]),
]


@pytest.mark.parametrize(
    ("make", "shapes"), WRONG, ids=[type(make()).__name__ for make, _ in WRONG]
)
def test_the_layer_and_the_shapes_are_named(
    make: Callable[[], nn.Module], shapes: list[tuple[int, ...]]
) -> None:
    layer = make()
    with pytest.raises((RuntimeError, ValueError, AssertionError, NotImplementedError)) as caught:
        layer(*[ad.zeros(*shape) for shape in shapes])
    said = str(caught.value)
    assert f"in {type(layer).__name__}({layer.extra_repr()})" in said
    assert str(shapes[0]) in said


def test_the_innermost_layer_is_named_once() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(4, 2), nn.ReLU()))
    with pytest.raises(RuntimeError) as caught:
        model(ad.zeros(2, 5))
    assert str(caught.value).count("\n  in ") == 1
    assert "in 1.0: Linear(in_features=4, out_features=2, bias=True), called with (2, 5)" in str(
        caught.value
    )


def test_layers_with_hooks_are_named_too() -> None:
    layer = nn.Linear(3, 4)
    layer.register_forward_hook(lambda module, args, out: None)
    with pytest.raises(RuntimeError, match=r"in Linear\(in_features=3"):
        layer(ad.zeros(2, 5))


def test_compiled_layers_are_named_once() -> None:
    layer = nn.Linear(3, 4)
    whole = nn.Sequential(nn.Flatten(), layer)
    for compiled, path in ((ad.compile(layer), ""), (ad.compile(whole), "1: ")):
        with pytest.raises(RuntimeError) as caught:
            compiled(ad.zeros(2, 5))
        assert str(caught.value).count("\n  in ") == 1
        assert f"in {path}Linear(in_features=3" in str(caught.value)


class Own(nn.Module):
    """A layer of a program's own."""

    def forward(self, x: Any) -> Any:
        raise ValueError("as its author wrote it")


@pytest.mark.parametrize("model", [Own(), nn.Sequential(nn.ReLU(), Own())])
def test_what_a_program_raises_itself_is_left_alone(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="author") as caught:
        model(ad.zeros(1))
    assert str(caught.value) == "as its author wrote it"


def test_a_named_error_travels_between_processes() -> None:
    with pytest.raises(RuntimeError) as caught:
        nn.Linear(3, 4)(ad.zeros(2, 5))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
