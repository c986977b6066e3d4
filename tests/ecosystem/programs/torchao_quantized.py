"""torchao beside transformers: weights in few bits, saved and loaded, in fine-tuning and in a Trainer's optimizer."""

import io
import warnings

import torch
import torchao.quantization as quantized
from common import parts, train
from torchao.quantization.granularity import PerAxis, PerGroup
from transformers import BertConfig, BertModel

warnings.filterwarnings("ignore")


def picture(*shape):
    """Numbers without rounding, so that both sides decide alike in the middle between two steps."""
    count = torch.tensor(shape).prod().item()
    return ((torch.arange(count) * 37 % 101 - 50).float() / 64).reshape(shape)


def fill(module):
    """Weights of that kind."""
    with torch.no_grad():
        for place, value in enumerate(module.parameters()):
            value.copy_(picture(*value.shape).roll(place) / 8)
    return module


x = picture(4, 64)


def net():
    return fill(
        torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32))
    )


CONFIGS = {
    "eight bits": lambda: quantized.Int8WeightOnlyConfig(),
    "eight bits by groups": lambda: quantized.Int8WeightOnlyConfig(granularity=PerGroup(32)),
    "activations too": lambda: quantized.Int8DynamicActivationInt8WeightConfig(),
    "four bits": lambda: quantized.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
    "three bits": lambda: quantized.IntxWeightOnlyConfig(weight_dtype=torch.int3, granularity=PerGroup(32)),
    "by rows": lambda: quantized.IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
    "activations and four bits": lambda: quantized.Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
    "float8": lambda: quantized.Float8WeightOnlyConfig(),
}  # fmt: skip


def weights():
    """Networks quantised, used, saved and loaded."""
    found = []
    for config in CONFIGS.values():
        module = net()
        quantized.quantize_(module, config())
        found.append(module(x))
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        other = net()
        other.load_state_dict(torch.load(file, weights_only=True), assign=True)
        found.append(other(x))
        found += [module[0].weight.shape[0], isinstance(module[0].weight, torch.nn.Parameter)]
        found.append(
            module[0].weight.dequantize() if hasattr(module[0].weight, "dequantize") else 0
        )
    return found


def chosen():
    """Some layers only, by a filter."""
    module = net()
    quantized.quantize_(
        module, quantized.Int8WeightOnlyConfig(), filter_fn=lambda m, name: name == "2"
    )
    return [type(module[0].weight) is torch.nn.Parameter, module(x)]


def language():
    """A model of transformers, quantised."""
    model = fill(
        BertModel(
            BertConfig(
                vocab_size=11,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=64,
            )
        )
    ).eval()
    ids = torch.arange(12).reshape(2, 6) % 11
    before = model(input_ids=ids)[0]
    quantized.quantize_(model, quantized.Int8WeightOnlyConfig())
    after = model(input_ids=ids)[0]
    return [before, after, (before - after).abs().max() < 0.05]


def steps():
    """The mathematics of it, and training that pretends to be quantised."""
    w = picture(8, 64)
    scale, zero = quantized.choose_qparams_affine(
        w, quantized.MappingType.SYMMETRIC, (1, 32), torch.int8, eps=1e-6
    )
    whole = quantized.quantize_affine(w, (1, 32), scale, zero, torch.int8)
    found = [
        scale,
        zero,
        whole,
        quantized.dequantize_affine(whole, (1, 32), scale, zero, torch.int8),
    ]
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    module = net()
    config = QATConfig(
        weight_config=IntxFakeQuantizeConfig(torch.int4, group_size=32), step="prepare"
    )
    quantized.quantize_(module, config)
    found += train(module, lambda: module(x).pow(2).mean(), steps=2)
    quantized.quantize_(module, QATConfig(step="convert"))
    return [*found, module(x)]


parts(weights, chosen, language, steps)
