"""Models of pictures and words, two steps each and a few words: LLaVA, Qwen-VL, Gemma 3, Idefics 3, InternVL."""

import torch
from common import fill, parts, picture, train
from small_transformers import GROUPED
from transformers import (
    CLIPVisionConfig,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    InternVLConfig,
    InternVLForConditionalGeneration,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

TEXT = {**GROUPED, "vocab_size": 64}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 8,
}
PATCHES = {
    "depth": 2,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 16,
}
PLACES = {
    "image_token_id": 60,
    "video_token_id": 61,
    "vision_start_token_id": 58,
    "vision_end_token_id": 59,
}
SHORT = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


def learn(model, ids, **given):
    """Losses, then words."""
    losses = train(fill(model), lambda: model(input_ids=ids, labels=ids, **given).loss, steps=2)
    return losses, model.eval().generate(input_ids=ids, **given, **SHORT)


def llava():
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VISION), text_config=LlamaConfig(**TEXT), image_token_id=60,
        vision_feature_layer=-1,
    )  # fmt: skip
    ids = torch.tensor([[1, 60, 60, 60, 60, 5, 6, 7]])
    return learn(LlavaForConditionalGeneration(config), ids, pixel_values=picture(1, 3, 16, 16))


def turned(section):
    """Rotations by time, row and column."""
    return {"rope_type": "default", "mrope_section": section, "rope_theta": 10000.0}


def qwen(model):
    """A picture of four by four patches, merged to four words."""
    ids = torch.tensor([[1, 58, 60, 60, 60, 60, 59, 5, 6]])
    return learn(
        model, ids, pixel_values=picture(16, 96), image_grid_thw=torch.tensor([[1, 4, 4]]),
        mm_token_type_ids=(ids == 60).int(),
    )  # fmt: skip


def qwen_windows():
    text = {**TEXT, "rope_parameters": turned([1, 1, 0])}
    vision = {**PATCHES, "window_size": 16, "fullatt_block_indexes": [1]}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **PLACES)
    return qwen(Qwen2_5_VLForConditionalGeneration(config))


def qwen_deep():
    text = {**TEXT, "head_dim": 8, "rope_parameters": turned([2, 1, 1])}
    vision = {**PATCHES, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
    config = Qwen3VLConfig(text_config=text, vision_config=vision, **PLACES)
    return qwen(Qwen3VLForConditionalGeneration(config))


def gemma():
    config = Gemma3Config(
        text_config={**TEXT, "head_dim": 8, "sliding_window": 4}, vision_config=VISION, mm_tokens_per_image=4,
        image_token_index=60, boi_token_index=58, eoi_token_index=59,
    )  # fmt: skip
    ids = torch.tensor([[1, 58, 60, 60, 60, 60, 59, 5]])
    given = {"pixel_values": picture(1, 3, 16, 16), "token_type_ids": (ids == 60).long()}
    return learn(Gemma3ForConditionalGeneration(config), ids, **given)


def idefics():
    config = Idefics3Config(
        text_config=LlamaConfig(**TEXT), vision_config=VISION, scale_factor=2, image_token_id=60
    )
    ids = torch.tensor([[1, 60, 5, 6, 7]])
    model = Idefics3ForConditionalGeneration(config)
    return learn(model, ids, pixel_values=picture(1, 1, 3, 16, 16))


def internvl():
    vision = {**VISION, "image_size": [16, 16], "patch_size": [4, 4]}
    config = InternVLConfig(
        text_config=Qwen2Config(**TEXT), vision_config=vision, image_token_id=60
    )
    ids = torch.tensor([[1, 60, 60, 60, 60, 5, 6]])
    return learn(InternVLForConditionalGeneration(config), ids, pixel_values=picture(1, 3, 16, 16))


parts(llava, qwen_windows, qwen_deep, gemma, idefics, internvl)
