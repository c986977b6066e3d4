"""segment-anything: a small model asked for masks at a point; galore's and adam-mini's optimizers."""

from functools import partial

import torch
from adam_mini import Adam_mini
from common import fill, parts, picture
from galore_torch import GaLoreAdamW
from segment_anything.modeling import (
    ImageEncoderViT,
    MaskDecoder,
    PromptEncoder,
    Sam,
    TwoWayTransformer,
)
from torch import nn


def masks():
    """Three masks at a point, and how good they claim to be."""
    encoder = ImageEncoderViT(
        img_size=64, patch_size=16, embed_dim=16, depth=2, num_heads=2, out_chans=8,
        norm_layer=partial(nn.LayerNorm, eps=1e-6), use_rel_pos=True, window_size=2,
        global_attn_indexes=[1],
    )  # fmt: skip
    prompts = PromptEncoder(
        embed_dim=8, image_embedding_size=(4, 4), input_image_size=(64, 64), mask_in_chans=4
    )
    inner = TwoWayTransformer(depth=1, embedding_dim=8, mlp_dim=16, num_heads=2)
    decoder = MaskDecoder(num_multimask_outputs=3, transformer=inner, transformer_dim=8)
    model = fill(Sam(encoder, prompts, decoder)).eval()
    asked = {
        "image": picture(3, 40, 48) * 100,
        "original_size": (40, 48),
        "point_coords": torch.tensor([[[10.0, 12.0]]]),
        "point_labels": torch.tensor([[1]]),
    }
    found = model([asked], multimask_output=True)[0]
    return found["iou_predictions"], found["low_res_logits"], found["masks"].float().mean()


def steps(model, optimizer, x):
    """Losses of four steps."""
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (model(x) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss)
    return found


def low_rank():
    """GaLore: moments of gradients of few ranks."""
    layer = fill(nn.Linear(8, 8))
    ranks = {"rank": 2, "update_proj_gap": 2, "scale": 0.25, "proj_type": "std"}
    groups = [{"params": [layer.weight], **ranks}, {"params": [layer.bias]}]
    return steps(layer, GaLoreAdamW(groups, lr=0.05), picture(4, 8))


def few_rates():
    """Adam-mini: one rate for a block of weights."""
    model = fill(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4)))
    optimizer = Adam_mini(model.named_parameters(), lr=0.01, dim=8, n_heads=2)
    return steps(model, optimizer, picture(4, 4))


parts(masks, low_rank, few_rates)
