"""Small functions at PyTorch's paths that libraries call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.distributed.groups.group import resolve
from adjoint.utils import checkpoint


def test_modules_are_applied_to_parts() -> None:
    x = ad.arange(6.0).reshape(3, 2)
    parts = nn.parallel.scatter(x, ["cpu", "cpu"])
    assert [len(part) for part in parts] == [2, 1]
    out = nn.parallel.parallel_apply([nn.ReLU(), nn.Identity()], [(part,) for part in parts])
    assert ad.equal(nn.parallel.gather(out, "cpu"), x)
    with pytest.raises(ValueError, match="2 modules"):
        nn.parallel.parallel_apply([nn.ReLU(), nn.ReLU()], [x])


def test_arguments_of_checkpoints() -> None:
    x = ad.ones(2, requires_grad=True) * 2
    detached, other = checkpoint.detach_variable((x, "name"))
    assert (detached.is_leaf, detached.requires_grad, other) == (True, True, "name")
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint.check_backward_validity([ad.ones(2)])
    checkpoint.check_backward_validity([x])
    with (
        pytest.warns(UserWarning, match="has no effect"),
        checkpoint.set_checkpoint_early_stop(False),
    ):
        y = checkpoint.checkpoint(lambda z: z.sin().sin(), x, use_reentrant=False)
    y.sum().backward()


def test_an_accelerator_that_may_not_be_there() -> None:
    with ad.accelerator.device_index(None):
        pass
    if not ad.accelerator.is_available():
        assert ad.accelerator.memory_allocated() == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ad.accelerator.nothing  # noqa: B018


@pytest.mark.parametrize("dtype", [ad.quint8, ad.qint8, ad.qint32])
def test_quantised_pooling_and_normalisation(dtype: Any) -> None:
    x = ((ad.arange(64.0).reshape(1, 4, 4, 4) * 37) % 19 - 9) / 3
    q = ad.quantize_per_tensor(x, 0.05, 3, dtype)
    options = {"stride": [2, 2], "padding": [1, 1], "ceil_mode": True}
    got = ad.quantized_max_pool2d(q, [3, 3], **options)
    want = nn.functional.max_pool2d(q.dequantize(), [3, 3], **options)
    ad.testing.assert_close(got.dequantize(), want)
    assert (got.q_scale(), got.q_zero_point()) == (q.q_scale(), 3)
    row = ad.quantized_max_pool1d(q[0], [2], [1])
    assert row.int_repr().shape == (4, 4, 3)
    statistics = (ad.ones(4), ad.zeros(4), ad.full((4,), 0.1), ad.full((4,), 2.0))
    normal = ad.quantized_batch_norm(q, *statistics, 1e-5, 0.07, 7)
    exact = (q.dequantize() - 0.1) / (2.0 + 1e-5) ** 0.5
    low, high = {"quint8": (-7, 248), "qint8": (-135, 120)}.get(dtype.name, (-1e9, 1e9))
    kept = exact.clamp(low * 0.07, high * 0.07)
    assert float((normal.dequantize() - kept).abs().max()) <= 0.0351
    with pytest.raises(RuntimeError, match="expected a quantized tensor"):
        ad.quantized_max_pool2d(x, [2, 2])


def test_collectives_of_a_list_of_ranks() -> None:
    with pytest.raises(ValueError, match=r"there is no process group of the ranks \[0, 7\]"):
        resolve([0, 7])


def test_rms_norm_by_keyword() -> None:
    assert nn.RMSNorm(3)(x=ad.ones(2, 3)).shape == (2, 3)


@pytest.mark.parametrize("reduce", ["max", "min"])
@pytest.mark.parametrize("initial", [0.5, -math.inf, math.nan])
def test_the_initial_element_of_runs_hides_no_nan(reduce: str, initial: float) -> None:
    runs = [[1.0, math.nan], [], [3.0, -5.0]]
    pick = np.max if reduce == "max" else np.min
    out = ad.segment_reduce(
        ad.tensor([x for run in runs for x in run]),
        reduce,
        lengths=ad.tensor([len(run) for run in runs]),
        initial=initial,
    )
    np.testing.assert_array_equal(out.numpy(), [pick([*run, initial]) for run in runs])


def test_lists_of_tensors_are_grouped_by_dtype() -> None:
    x, y = ad.ones(2), ad.ones(2, dtype=ad.float64)
    groups = ad.optim.Optimizer._group_tensors_by_device_and_dtype([[x, y, x], []], True)
    assert [(key[1], indices) for key, (_, indices) in groups.items()] == [
        (ad.float32, [0, 2]),
        (ad.float64, [1]),
    ]
    assert [len(part) for part in groups[x.device, ad.float32][0]] == [2, 0]


def test_a_module_with_other_parameters_for_a_block() -> None:
    layer = nn.Linear(2, 1)
    given = {"weight": ad.zeros(1, 2), "bias": ad.ones(1)}
    with nn.utils.stateless._reparametrize_module(layer, given):
        assert layer(ad.ones(3, 2)).tolist() == [[1.0]] * 3
    assert isinstance(layer.weight, nn.Parameter)


def test_where_datasets_end() -> None:
    assert ad.utils.data.ConcatDataset.cumsum([range(2), range(3)]) == [2, 5]


def test_structures_are_cast_as_autocast_casts() -> None:
    values = {"a": [ad.ones(1), ad.ones(1, dtype=ad.float64)], "b": ("text", ad.arange(2))}
    cast = ad.amp.autocast_mode._cast(values, "cpu", ad.bfloat16)
    assert [x.dtype for x in cast["a"]] == [ad.bfloat16, ad.float64]
    assert (cast["b"][0], cast["b"][1].dtype) == ("text", ad.int64)


def test_blocks_of_a_transformer_may_be_defined_anew() -> None:
    class Encoder(nn.TransformerEncoderLayer):
        def _sa_block(
            self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
        ) -> Any:
            assert attn_mask is mask
            return 2 * x

        def _ff_block(self, x: Any) -> Any:
            return x + 1

    class Decoder(nn.TransformerDecoderLayer):
        def _mha_block(
            self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
        ) -> Any:
            return mem

        def _ff_block(self, x: Any) -> Any:
            return super()._ff_block(x) * 0

    x, mask = ad.randn(3, 2, 4), ad.zeros(3, 3)
    encoder = Encoder(4, 1, 8, norm_first=True).eval()
    first = x + 2 * encoder.norm1(x)
    assert ad.allclose(encoder(x, mask), first + encoder.norm2(first) + 1)
    decoder = Decoder(4, 1, 8, norm_first=True).eval()
    y = x + decoder._sa_block(decoder.norm1(x), None, None)
    assert ad.allclose(decoder(x, mask.new_ones(3, 2, 4)), y + 1)


def test_containers_and_tables_of_ones_own() -> None:
    class Named(nn.Sequential):
        def names(self, index: int) -> str:
            return self._get_item_by_idx(self._modules.keys(), index)

    assert Named(nn.ReLU(), nn.Tanh()).names(-1) == "1"
    modules = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    assert modules._get_abs_string_index(-2) == "0"
    with pytest.raises(IndexError, match="out of range"):
        modules._get_abs_string_index(2)
    table = nn.Embedding(3, 2, padding_idx=1)
    nn.init.ones_(table.weight)
    table._fill_padding_idx_with_zero()
    assert table.weight.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_searches_of_ones_own() -> None:
    class Halved(ad.optim.LBFGS):
        def _add_grad(self, step_size: Any, direction: Any) -> None:
            super()._add_grad(step_size / 2, direction)

    moved = []
    for kind in (ad.optim.LBFGS, Halved):
        p = nn.Parameter(ad.tensor([1.0, 2.0]))
        optimizer = kind([p], max_iter=1)
        optimizer._cuda_graph_capture_health_check()
        assert optimizer._numel() == 2

        def closure(p: Any = p) -> Any:
            p.grad = None
            loss = (p**2).sum() / 2
            loss.backward()
            return loss

        optimizer.step(closure)
        assert ad.equal(optimizer._gather_flat_grad(), p.grad)
        moved.append(ad.tensor([1.0, 2.0]) - p.detach())
    assert ad.allclose(moved[0], 2 * moved[1])


def test_tensors_and_storages_are_told_apart() -> None:
    x, weight = ad.ones(3), nn.Parameter(ad.ones(3))
    assert x._cdata == x._cdata != weight._cdata != weight.detach()._cdata
    assert x.untyped_storage()._cdata == x[1:].untyped_storage()._cdata
    assert x.untyped_storage()._cdata != weight.untyped_storage()._cdata


def test_an_optimizer_that_sets_itself_up() -> None:
    class Around(ad.optim.Optimizer):
        def __init__(self, optimizer: ad.optim.Optimizer) -> None:
            self.optimizer, self.defaults = optimizer, optimizer.defaults
            self.param_groups, self.state = optimizer.param_groups, optimizer.state
            self._patch_step_function()

        def step(self, closure: Any = None) -> Any:
            return self.optimizer.step(closure)

    steps = []
    around = Around(ad.optim.SGD([nn.Parameter(ad.ones(2))], lr=1.0))
    around.register_step_post_hook(lambda *_: steps.append(1))
    around.step()
    assert steps == [1]
