"""Names and shapes of published checkpoints, written down from the files, not from our models.

Each function gives name -> shape in the order of the file's state dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

Shape = tuple[int, ...]
Entries = Iterator[tuple[str, Shape]]


def conv(name: str, fan_out: int, fan_in: int, size: int, bias: bool = False) -> Entries:
    yield f"{name}.weight", (fan_out, fan_in, size, size)
    if bias:
        yield f"{name}.bias", (fan_out,)


def affine(name: str, width: int) -> Entries:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def batch_norm(name: str, width: int) -> Entries:
    yield from affine(name, width)
    yield f"{name}.running_mean", (width,)
    yield f"{name}.running_var", (width,)
    yield f"{name}.num_batches_tracked", ()


def linear(name: str, fan_out: int, fan_in: int, bias: bool = True) -> Entries:
    yield f"{name}.weight", (fan_out, fan_in)
    if bias:
        yield f"{name}.bias", (fan_out,)


def resnet(blocks: tuple[int, int, int, int], bottleneck: bool) -> Entries:
    """torchvision's resnet18 to resnet152."""
    yield from conv("conv1", 64, 3, 7)
    yield from batch_norm("bn1", 64)
    last = 64
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True), 1):
        out = 4 * width if bottleneck else width
        for index in range(count):
            at = f"layer{stage}.{index}"
            plan = (
                [(width, last, 1), (width, width, 3), (out, width, 1)]
                if bottleneck
                else [(width, last, 3), (width, width, 3)]
            )
            for number, (fan_out, fan_in, size) in enumerate(plan, 1):
                yield from conv(f"{at}.conv{number}", fan_out, fan_in, size)
                yield from batch_norm(f"{at}.bn{number}", fan_out)
            if index == 0 and (bottleneck or stage > 1):
                yield from conv(f"{at}.downsample.0", out, last, 1)
                yield from batch_norm(f"{at}.downsample.1", out)
            last = out
    yield from linear("fc", 1000, last)


# Places of the convolutions in `features`, and their channels.
VGG_PLAIN = {
    11: "0:64 3:128 6:256 8:256 11:512 13:512 16:512 18:512",
    13: "0:64 2:64 5:128 7:128 10:256 12:256 15:512 17:512 20:512 22:512",
    16: "0:64 2:64 5:128 7:128 10:256 12:256 14:256 17:512 19:512 21:512 24:512 26:512 28:512",
    19: "0:64 2:64 5:128 7:128 10:256 12:256 14:256 16:256 19:512 21:512 23:512 25:512 28:512 30:512 32:512 34:512",
}
VGG_NORMALISED = {
    11: "0:64 4:128 8:256 11:256 15:512 18:512 22:512 25:512",
    13: "0:64 3:64 7:128 10:128 14:256 17:256 21:512 24:512 28:512 31:512",
    16: "0:64 3:64 7:128 10:128 14:256 17:256 20:256 24:512 27:512 30:512 34:512 37:512 40:512",
    19: "0:64 3:64 7:128 10:128 14:256 17:256 20:256 23:256 27:512 30:512 33:512 36:512 40:512 43:512 46:512 49:512",
}


def vgg(layers: int, normalised: bool) -> Entries:
    """torchvision's vgg11 to vgg19, with and without batch normalisation."""
    last = 3
    for word in (VGG_NORMALISED if normalised else VGG_PLAIN)[layers].split():
        place, width = map(int, word.split(":"))
        yield from conv(f"features.{place}", width, last, 3, bias=True)
        if normalised:
            yield from batch_norm(f"features.{place + 1}", width)
        last = width
    for place, fan_out, fan_in in ((0, 4096, 25088), (3, 4096, 4096), (6, 1000, 4096)):
        yield from linear(f"classifier.{place}", fan_out, fan_in)


def mobilenet_v2() -> Entries:
    """torchvision's mobilenet_v2."""
    yield from conv("features.0.0", 32, 3, 3)
    yield from batch_norm("features.0.1", 32)
    yield from conv("features.1.conv.0.0", 32, 1, 3)
    yield from batch_norm("features.1.conv.0.1", 32)
    yield from conv("features.1.conv.1", 16, 32, 1)
    yield from batch_norm("features.1.conv.2", 16)
    widths = [16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320]
    for place, (fan_in, fan_out) in enumerate(pairwise(widths), 2):
        at, hidden = f"features.{place}.conv", 6 * fan_in
        yield from conv(f"{at}.0.0", hidden, fan_in, 1)
        yield from batch_norm(f"{at}.0.1", hidden)
        yield from conv(f"{at}.1.0", hidden, 1, 3)
        yield from batch_norm(f"{at}.1.1", hidden)
        yield from conv(f"{at}.2", fan_out, hidden, 1)
        yield from batch_norm(f"{at}.3", fan_out)
    yield from conv("features.18.0", 1280, 320, 1)
    yield from batch_norm("features.18.1", 1280)
    yield from linear("classifier.1", 1000, 1280)


def vit(layers: int, width: int, patch: int, old: bool = False) -> Entries:
    """torchvision's vit_b_16 to vit_l_32; the first files name the linear layers otherwise."""
    first, second = ("linear_1", "linear_2") if old else ("0", "3")
    yield "class_token", (1, 1, width)
    yield from conv("conv_proj", width, 3, patch, bias=True)
    yield "encoder.pos_embedding", (1, (224 // patch) ** 2 + 1, width)
    for index in range(layers):
        at = f"encoder.layers.encoder_layer_{index}"
        yield from affine(f"{at}.ln_1", width)
        yield f"{at}.self_attention.in_proj_weight", (3 * width, width)
        yield f"{at}.self_attention.in_proj_bias", (3 * width,)
        yield from linear(f"{at}.self_attention.out_proj", width, width)
        yield from affine(f"{at}.ln_2", width)
        yield from linear(f"{at}.mlp.{first}", 4 * width, width)
        yield from linear(f"{at}.mlp.{second}", width, 4 * width)
    yield from affine("encoder.ln", width)
    yield from linear("heads.head", 1000, width)


def gpt2(
    layers: int, width: int, vocabulary: int = 50257, places: int = 1024, file: bool = False
) -> Entries:
    """Hugging Face's GPT2LMHeadModel; `file`: as gpt2's published files have it."""
    lead = "" if file else "transformer."
    yield f"{lead}wte.weight", (vocabulary, width)
    yield f"{lead}wpe.weight", (places, width)
    for index in range(layers):
        at = f"{lead}h.{index}"
        yield from affine(f"{at}.ln_1", width)
        if file:
            yield f"{at}.attn.bias", (1, 1, places, places)
        # The linear layers of GPT-2 are stored (in, out).
        yield f"{at}.attn.c_attn.weight", (width, 3 * width)
        yield f"{at}.attn.c_attn.bias", (3 * width,)
        yield f"{at}.attn.c_proj.weight", (width, width)
        yield f"{at}.attn.c_proj.bias", (width,)
        yield from affine(f"{at}.ln_2", width)
        yield f"{at}.mlp.c_fc.weight", (width, 4 * width)
        yield f"{at}.mlp.c_fc.bias", (4 * width,)
        yield f"{at}.mlp.c_proj.weight", (4 * width, width)
        yield f"{at}.mlp.c_proj.bias", (width,)
    yield from affine(f"{lead}ln_f", width)
    if not file:
        yield "lm_head.weight", (vocabulary, width)


def llama(layers: int, width: int, hidden: int, shared: int, vocabulary: int) -> Entries:
    """Hugging Face's LlamaForCausalLM; `shared` is the width of all key heads together."""
    yield "model.embed_tokens.weight", (vocabulary, width)
    for index in range(layers):
        at = f"model.layers.{index}"
        for part, fan_out in (("q", width), ("k", shared), ("v", shared), ("o", width)):
            yield f"{at}.self_attn.{part}_proj.weight", (fan_out, width)
        yield f"{at}.mlp.gate_proj.weight", (hidden, width)
        yield f"{at}.mlp.up_proj.weight", (hidden, width)
        yield f"{at}.mlp.down_proj.weight", (width, hidden)
        yield f"{at}.input_layernorm.weight", (width,)
        yield f"{at}.post_attention_layernorm.weight", (width,)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (vocabulary, width)


def llama_original(layers: int, width: int, hidden: int, shared: int, vocabulary: int) -> Entries:
    """The authors' consolidated.00.pth."""
    yield "tok_embeddings.weight", (vocabulary, width)
    yield "norm.weight", (width,)
    yield "output.weight", (vocabulary, width)
    for index in range(layers):
        at = f"layers.{index}"
        for part, fan_out in (("q", width), ("k", shared), ("v", shared), ("o", width)):
            yield f"{at}.attention.w{part}.weight", (fan_out, width)
        yield f"{at}.feed_forward.w1.weight", (hidden, width)
        yield f"{at}.feed_forward.w2.weight", (width, hidden)
        yield f"{at}.feed_forward.w3.weight", (hidden, width)
        yield f"{at}.attention_norm.weight", (width,)
        yield f"{at}.ffn_norm.weight", (width,)
    yield "rope.freqs", (width // 8,)


def bert(
    layers: int, width: int, vocabulary: int = 30522, places: int = 512, lead: str = ""
) -> Entries:
    """Hugging Face's BertModel; inside another model with `lead` before its names."""
    at = f"{lead}embeddings"
    yield f"{at}.word_embeddings.weight", (vocabulary, width)
    yield f"{at}.position_embeddings.weight", (places, width)
    yield f"{at}.token_type_embeddings.weight", (2, width)
    yield from affine(f"{at}.LayerNorm", width)
    for index in range(layers):
        at = f"{lead}encoder.layer.{index}"
        for part in ("query", "key", "value"):
            yield from linear(f"{at}.attention.self.{part}", width, width)
        yield from linear(f"{at}.attention.output.dense", width, width)
        yield from affine(f"{at}.attention.output.LayerNorm", width)
        yield from linear(f"{at}.intermediate.dense", 4 * width, width)
        yield from linear(f"{at}.output.dense", width, 4 * width)
        yield from affine(f"{at}.output.LayerNorm", width)
    yield from linear(f"{lead}pooler.dense", width, width)


def ddpm(width: int = 128, old: bool = False) -> Entries:
    """Diffusers' UNet2DModel of ddpm-cifar10-32; the first files name attention otherwise."""
    time = 4 * width
    attention = (
        ("query", "key", "value", "proj_attn") if old else ("to_q", "to_k", "to_v", "to_out.0")
    )

    def resnet(at: str, fan_in: int, fan_out: int) -> Entries:
        yield from affine(f"{at}.norm1", fan_in)
        yield from conv(f"{at}.conv1", fan_out, fan_in, 3, bias=True)
        yield from linear(f"{at}.time_emb_proj", fan_out, time)
        yield from affine(f"{at}.norm2", fan_out)
        yield from conv(f"{at}.conv2", fan_out, fan_out, 3, bias=True)
        if fan_in != fan_out:
            yield from conv(f"{at}.conv_shortcut", fan_out, fan_in, 1, bias=True)

    def attend(at: str, channels: int) -> Entries:
        yield from affine(f"{at}.group_norm", channels)
        for part in attention:
            yield from linear(f"{at}.{part}", channels, channels)

    a, b = width, 2 * width
    yield from conv("conv_in", width, 3, 3, bias=True)
    yield from linear("time_embedding.linear_1", time, width)
    yield from linear("time_embedding.linear_2", time, time)
    down = [(a, a), (a, b), (b, b), (b, b)]
    for level, (fan_in, fan_out) in enumerate(down):
        at = f"down_blocks.{level}"
        yield from resnet(f"{at}.resnets.0", fan_in, fan_out)
        yield from resnet(f"{at}.resnets.1", fan_out, fan_out)
        if level == 1:
            yield from attend(f"{at}.attentions.0", fan_out)
            yield from attend(f"{at}.attentions.1", fan_out)
        if level < 3:
            yield from conv(f"{at}.downsamplers.0.conv", fan_out, fan_out, 3, bias=True)
    yield from resnet("mid_block.resnets.0", b, b)
    yield from resnet("mid_block.resnets.1", b, b)
    yield from attend("mid_block.attentions.0", b)
    # What comes from below and from beside, together, for each block.
    up = [
        ((2 * b, 2 * b, 2 * b), b),
        ((2 * b, 2 * b, 2 * b), b),
        ((2 * b, 2 * b, a + b), b),
        ((a + b, 2 * a, 2 * a), a),
    ]
    for level, (entering, fan_out) in enumerate(up):
        at = f"up_blocks.{level}"
        for index, fan_in in enumerate(entering):
            yield from resnet(f"{at}.resnets.{index}", fan_in, fan_out)
        if level == 2:
            for index in range(3):
                yield from attend(f"{at}.attentions.{index}", fan_out)
        if level < 3:
            yield from conv(f"{at}.upsamplers.0.conv", fan_out, fan_out, 3, bias=True)
    yield from affine("conv_norm_out", width)
    yield from conv("conv_out", 3, width, 3, bias=True)
