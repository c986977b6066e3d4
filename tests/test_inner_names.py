"""Inner names of PyTorch that published programs copy, import or assign."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _C, _logging, _utils, jit
from adjoint.cli import addresses
from adjoint.cuda.amp import autocast_mode, grad_scaler
from adjoint.distributions import lowrank_multivariate_normal as low_rank
from adjoint.distributions import multivariate_normal as normal
from adjoint.nn.modules import container, module, rnn, transformer
from adjoint.nn.modules.utils import _list_with_default
from adjoint.nn.parallel import _functions
from adjoint.nn.parallel.distributed import _find_tensors
from adjoint.nn.utils import prune
from adjoint.utils import _device

F: Any = ad.nn.functional

# Paths of PyTorch's and names that programs import from them.
IMPORTED = {
    "_dynamo.backends.registry": "register_backend list_backends",
    "_functorch.apis": "vmap grad",
    "_functorch.eager_transforms": "vjp jvp jacrev jacfwd hessian functionalize",
    "_functorch.functional_call": "functional_call stack_module_state",
    "_functorch.make_functional": "make_functional make_functional_with_buffers",
    "autograd.profiler_util": "DeviceType",
    "cpu.amp.autocast_mode": "autocast",
    "cpu.amp.grad_scaler": "GradScaler",
    "cuda.streams": "Stream Event",
    "jit._script": "script RecursiveScriptModule ScriptModule",
    "jit._trace": "trace TracerWarning is_tracing",
    "masked.maskedtensor.core": "MaskedTensor",
    "multiprocessing.pool": "Pool",
    "quantization.fuse_modules": "fuse_modules",
    "testing._comparison": "assert_close",
    "vision.models._api": "register_model Weights get_model get_weight list_models",
    "vision.transforms._functional_pil": "get_dimensions adjust_hue rotate",
    "vision.transforms._presets": "ImageClassification ObjectDetection",
    "vision.transforms.transforms": "_setup_size RandomResizedCrop",
}


@pytest.mark.parametrize("path", IMPORTED)
def test_names_are_found_where_pytorch_keeps_them(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "setattr", lambda *_: None, raising=False)
    monkeypatch.setitem(sys.modules, f"adjoint.{path}", None)  # taken out again afterwards
    found = addresses.module(f"adjoint.{path}")
    assert found is not None
    for name in IMPORTED[path].split():
        assert getattr(found, name) is not None


def test_mixed_precision_at_its_former_path() -> None:
    assert ad.cuda.amp.autocast is autocast_mode.autocast
    assert ad.cuda.amp.GradScaler is grad_scaler.GradScaler
    with autocast_mode.autocast(enabled=False):  # no kind of device is given
        assert (ad.ones(2, 2) @ ad.ones(2, 2)).dtype is ad.float32
    assert grad_scaler.OptState.READY.value == 0


def test_gradients_assigned_by_the_inner_name() -> None:
    shared, own = ad.nn.Linear(2, 2), ad.nn.Linear(2, 2)
    own(ad.ones(1, 2)).sum().backward()
    for theirs, ours in zip(shared.parameters(), own.parameters(), strict=True):
        theirs._grad = ours.grad
        assert theirs.grad is ours.grad
        assert theirs._grad is ours.grad
    before = shared.bias.clone()
    ad.optim.SGD(shared.parameters(), lr=1.0).step()
    ad.testing.assert_close(shared.bias, before - 1)
    assert own(ad.ones(1, 2))._grad_fn is not None
    with pytest.raises(RuntimeError, match="does not match"):
        shared.bias._grad = ad.ones(3)


def test_batches_in_memory_that_processes_share() -> None:
    rows = [ad.full((2, 3), float(i)) for i in range(2)]
    for made in (rows[0]._typed_storage()._new_shared(12), rows[0].storage()._new_shared(12)):
        out = rows[0].new(made).resize_(2, 2, 3)
        assert ad.stack(rows, 0, out=out) is out
        assert out.is_shared()
        assert out.tolist() == ad.stack(rows).tolist()
        assert made.type() == "torch.FloatStorage"
    held = rows[0].untyped_storage()._new_shared(8, device="cpu")
    assert (held.is_shared(), held.nbytes(), held.is_pinned()) == (True, 8, False)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("masked", ["none", "bool", "float"])
def test_a_copy_of_attention_by_its_parts(apart: bool, masked: str) -> None:
    """Attention written out with the helpers gives what the layer does."""
    sizes = (6, 5) if apart else (8, 8)
    layer = ad.nn.MultiheadAttention(8, 2, kdim=sizes[0], vdim=sizes[1])
    q, k, v = ad.randn(3, 2, 8), *(ad.randn(4, 2, size) for size in sizes)
    mask = None
    if masked != "none":
        mask = ad.ones(3, 4).triu(2).bool()
        mask = mask if masked == "bool" else ad.zeros(3, 4).masked_fill(mask, float("-inf"))
    assert F._mha_shape_check(q, k, v, None, mask, 2)
    added = F._canonical_mask(mask, "attn_mask", F._none_or_dtype(None), "", q.dtype, False)
    if apart:
        b = layer.in_proj_bias.chunk(3)
        weights = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
        parts = F._in_projection(q, k, v, *weights, *b)
    else:
        parts = F._in_projection_packed(q, k, v, layer.in_proj_weight, layer.in_proj_bias)
    heads = [x.reshape(-1, 4, 4).transpose(0, 1) for x in parts]
    scores = heads[0] @ heads[1].mT / 2
    weights = (scores if added is None else scores + added).softmax(-1)
    mixed = (weights @ heads[2]).transpose(0, 1).reshape(3, 2, 8)
    wanted, _ = layer(q, k, v, attn_mask=mask)
    ad.testing.assert_close(layer.out_proj(mixed), wanted)


def test_parts_of_attention_refuse() -> None:
    x = ad.ones(2, 2, 4)
    with pytest.raises(AssertionError, match="1-D query"):
        F._mha_shape_check(x[0, 0], x, x, None, None, 1)
    with pytest.raises(AssertionError, match="only bool and floating"):
        F._canonical_mask(ad.ones(2, 2).long(), "mask", None, "", ad.float32)
    with pytest.warns(UserWarning, match="mismatched mask and other"):
        F._canonical_mask(ad.ones(2, 2).bool(), "mask", ad.float32, "other", ad.float32)
    assert F._none_or_dtype(x) is ad.float32
    with pytest.raises(RuntimeError, match="_none_or_dtype"):
        F._none_or_dtype(3)
    with pytest.warns(UserWarning, match="Implicit dimension"):
        assert [F._get_softmax_dim("softmax", n, 3) for n in range(5)] == [0, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F._verify_batch_size([1, 3, 1])
    F._verify_batch_size([2, 3, 1])
    assert F._Reduction.get_enum("sum") == 2


def test_helpers_of_layers() -> None:
    assert module._addindent("a\nb\nc", 2) == "a\n  b\n  c"
    assert container._addindent is module._addindent
    assert transformer._generate_square_subsequent_mask(2).tolist() == [[0, -float("inf")], [0, 0]]
    assert transformer._get_seq_len(ad.ones(3, 4, 5), True) == 4
    assert transformer._detect_is_causal_mask(transformer._generate_square_subsequent_mask(3))
    assert _list_with_default([None, 4], [1, 2, 3]) == [2, 4]
    with pytest.raises(ValueError, match="at least 3"):
        _list_with_default([None, 4], [1, 2])
    x = ad.arange(6).view(1, 3, 2)
    with pytest.warns(FutureWarning, match="index_select"):
        assert rnn.apply_permutation(x, ad.tensor([2, 0, 1])).tolist() == [[[4, 5], [0, 1], [2, 3]]]


def test_helpers_of_distributions() -> None:
    rng = np.random.default_rng(0)
    w, d, x = rng.standard_normal((4, 2)), rng.uniform(0.5, 2, 4), rng.standard_normal((3, 4))
    cov = w @ w.T + np.diag(d)
    W, D, X = map(ad.tensor, (w, d, x))
    tril = low_rank._batch_capacitance_tril(W, D)
    wanted = np.einsum("bi,ij,bj->b", x, np.linalg.inv(cov), x)
    got = low_rank._batch_lowrank_mahalanobis(W, D, X, tril)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9)
    logdet = low_rank._batch_lowrank_logdet(W, D, tril)
    np.testing.assert_allclose(logdet.item(), np.linalg.slogdet(cov)[1], rtol=1e-9)
    L = ad.tensor(np.linalg.cholesky(cov))
    np.testing.assert_allclose(normal._batch_mahalanobis(L, X).numpy(), wanted, rtol=1e-9)
    np.testing.assert_allclose(normal._batch_mv(L, X).numpy(), x @ L.numpy().T, rtol=1e-12)


def test_copies_between_devices_have_derivatives() -> None:
    x, y = ad.ones(4, 2, requires_grad=True), ad.ones(3, requires_grad=True)
    places = [ad.device("cpu")] * 2
    first = _functions.Broadcast.apply(places, x, y)
    assert [tuple(t.shape) for t in first] == [(4, 2), (3,), (4, 2), (3,)]
    summed = _functions.ReduceAddCoalesced.apply(places[0], 2, *first)
    parts = _functions.Scatter.apply(places, None, 0, summed[0])
    joined = _functions.Gather.apply(places[0], 0, *parts)
    (joined.sum() + summed[1].sum()).backward()
    assert x.grad.tolist() == [[2.0, 2.0]] * 4
    assert y.grad.tolist() == [2.0] * 3
    assert _functions.Gather.apply("cpu", 0, y.sum(), y.sum()).shape == (2,)
    assert _functions._get_stream(places[0]) is None


def test_tensors_in_structures_and_groups() -> None:
    a, b, c = ad.ones(2), ad.ones(3).long(), ad.ones(4)
    found = _find_tensors({"x": [a, (b, 1)], "y": c})
    assert all(t is u for t, u in zip(found, (a, b, c), strict=True))
    groups = [[len(t) for t in group] for group in _utils._take_tensors([a, b, c, a], 24)]
    assert groups == [[2, 4], [2], [3]]


def test_tables_of_compiled_functions() -> None:
    x = ad.tensor([[2.0, 1.0], [1.0, 3.0]])
    ad.testing.assert_close(_C._nn.gelu(x), F.gelu(x))
    ad.testing.assert_close(_C._linalg.linalg_inv(x), ad.linalg.inv(x))
    ad.testing.assert_close(_C._VariableFunctions.add(x, 1), x + 1)
    with pytest.raises(AttributeError, match="no_such_function"):
        _C._nn.no_such_function  # noqa: B018
    assert isinstance(x, _C._TensorBase)
    assert _C._is_torch_function_enabled()
    with _C.DisableTorchFunction():
        assert not _C._is_torch_function_enabled()
    _C._set_grad_enabled(False)
    assert not ad.is_grad_enabled()
    _C._set_grad_enabled(True)


def test_boxes_by_torchvisions_operations() -> None:
    boxes = ad.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [3, 3, 4, 4]])
    scores = ad.tensor([0.5, 0.9, 0.1])
    assert ad.ops.torchvision.nms(boxes, scores, 0.5).tolist() == [1, 2]
    with pytest.raises(AttributeError, match="no attribute 'decode'"):
        ad.ops.torchvision.decode  # noqa: B018


def test_logs_and_switches_of_others() -> None:
    _logging.set_logs(dynamo=logging.ERROR, modules={"tests.own": logging.INFO})
    assert logging.getLogger("torch._dynamo").level == logging.ERROR
    assert logging.getLogger("tests.own").level == logging.INFO
    logging.getLogger("torch._dynamo").setLevel(logging.NOTSET)
    with pytest.raises(TypeError, match="'graphs_broken'"):
        _logging.set_logs(graphs_broken=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they have no effect, said once a process
        _logging.set_logs(graph_breaks=True)
        jit.enable_onednn_fusion(True)
        assert jit.onednn_fusion_enabled()
        jit.enable_onednn_fusion(False)
        before = jit.set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 1)])
        assert jit.set_fusion_strategy(before) == [("STATIC", 2), ("DYNAMIC", 1)]
    with pytest.raises(RuntimeError, match="'STATIC' or 'DYNAMIC'"):
        jit.set_fusion_strategy([("FAST", 1)])


def test_settings_of_transforms_for_compilers_are_kept() -> None:
    from adjoint._functorch import config

    settings: Any = config
    with pytest.warns(UserWarning, match="_functorch.config.tests_own = 0.5 has no effect"):
        settings.tests_own = 0.5
    with settings.patch(tests_own=0.25):
        assert settings.tests_own == 0.25
    assert settings.tests_own == 0.5


def test_functions_that_inherit_from_the_older_class() -> None:
    from adjoint.autograd.function import InplaceFunction

    class Round(InplaceFunction):
        @staticmethod
        def forward(ctx: Any, x: Any, inplace: bool = False) -> Any:
            if inplace:
                ctx.mark_dirty(x)
            return (x if inplace else x.clone()).round_()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, None

    x = ad.tensor([0.4, 1.6], requires_grad=True)
    y = Round.apply(x * 1, True)
    y.sum().backward()
    assert y.tolist() == [0.0, 2.0]
    assert x.grad.tolist() == [1.0, 1.0]


def test_functions_make_their_tensors_on_a_device() -> None:
    @_device.set_device("meta")
    def made() -> Any:
        return ad.zeros(2)

    assert made().device.type == "meta"
    assert ad.zeros(2).device.type == "cpu"
    for make in (ad.zeros, ad.fft.rfftfreq, ad.sparse_coo_tensor):
        assert make in _device._device_constructors()
    assert ad.zeros_like not in _device._device_constructors()
    for make in (ad.arange, ad.hann_window, ad.eye, ad.randperm):
        with ad.device("meta"):
            assert make(3).device.type == "meta"


def test_parts_of_pruning() -> None:
    assert prune._compute_nparams_toprune(0.5, 7) == 4
    assert prune._compute_nparams_toprune(3, 7) == 3
    t = ad.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(prune._compute_norm(t, 2, 0).numpy(), [5**0.5, 50**0.5])
    np.testing.assert_allclose(prune._compute_norm(t, 1, -1).numpy(), [3, 5, 7])
    prune._validate_pruning_amount(0.9, 2)
    for check, given, error in (
        (prune._validate_pruning_amount_init, (1.5,), ValueError),
        (prune._validate_pruning_amount_init, ("1",), TypeError),
        (prune._validate_pruning_amount, (3, 2), ValueError),
        (prune._validate_structured_pruning, (t[0],), ValueError),
        (prune._validate_pruning_dim, (t, 2), IndexError),
    ):
        with pytest.raises(error):
            check(*given)
