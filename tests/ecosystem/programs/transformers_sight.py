"""Two steps of models of pictures and sounds, and of both with words."""

import torch
import transformers as tr
from common import fill, picture, say, train

images, labels = picture(2, 3, 32, 32), torch.tensor([0, 1])
ids = torch.arange(16).reshape(2, 8) * 3 % 36 + 3
sound = picture(2, 400)
patches = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_labels": 3,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
wide = {**patches, "intermediate_size": 32}
heard = {
    "vocab_size": 12,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "conv_dim": (8, 8),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "hidden_dropout": 0.0,
    "activation_dropout": 0.0,
    "attention_dropout": 0.0,
    "feat_proj_dropout": 0.0,
    "final_dropout": 0.0,
    "layerdrop": 0.0,
    "mask_time_prob": 0.0,
    "pad_token_id": 0,
}
found = []


def learn(model, **given):
    """Losses of two steps."""
    fill(model)
    found.extend(train(model, lambda: model(**given).loss, steps=2))


for kind in (
    tr.DeiTForImageClassification(tr.DeiTConfig(**wide)),
    tr.BeitForImageClassification(
        tr.BeitConfig(**wide, use_relative_position_bias=True, drop_path_rate=0.0)
    ),
    tr.Dinov2ForImageClassification(tr.Dinov2Config(**patches)),
    tr.SwinForImageClassification(
        tr.SwinConfig(
            image_size=32, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2],
            window_size=4, num_labels=3, drop_path_rate=0.0,
        )
    ),
    tr.ConvNextV2ForImageClassification(
        tr.ConvNextV2Config(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=3)
    ),
    tr.ResNetForImageClassification(
        tr.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
        )
    ),
):  # fmt: skip
    learn(kind, pixel_values=images, labels=labels)
segmenter = tr.SegformerForSemanticSegmentation(
    tr.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 8],
        num_attention_heads=[1, 2], patch_sizes=[3, 3], strides=[2, 2], mlp_ratios=[2, 2],
        decoder_hidden_size=8, num_labels=3,
    )
).eval()  # fmt: skip
learn(segmenter, pixel_values=images, labels=(images[:, 0] > 0).long())
small = {"intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
words = {**small, "vocab_size": 40, "hidden_size": 16, "max_position_embeddings": 16}
sights = {**small, "hidden_size": 16, "image_size": 32, "patch_size": 8}
clip = tr.CLIPConfig(
    text_config={**words, "eos_token_id": 2}, vision_config=sights, projection_dim=8
)
learn(tr.CLIPModel(clip), input_ids=ids, pixel_values=images, return_loss=True)
siglip = tr.SiglipConfig(text_config=words, vision_config=sights)
learn(tr.SiglipModel(siglip), input_ids=ids, pixel_values=images, return_loss=True)
letters = torch.tensor([[1, 2, 3], [4, 5, 6]])
learn(tr.Wav2Vec2ForCTC(tr.Wav2Vec2Config(**heard)), input_values=sound, labels=letters)
listener = tr.HubertForSequenceClassification(
    tr.HubertConfig(**heard, num_labels=2, classifier_proj_size=8)
)
learn(listener, input_values=sound, labels=labels)
backbone = tr.ResNetConfig(
    embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
    out_features=["stage2"],
)  # fmt: skip
finder = tr.DetrForObjectDetection(
    tr.DetrConfig(
        use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
        backbone_config=backbone, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, num_queries=4, num_labels=3, dropout=0.0,
    )
).eval()  # fmt: skip
boxes = [
    {"class_labels": torch.tensor([0]), "boxes": torch.tensor([[0.5, 0.5, 0.2, 0.2]])},
    {
        "class_labels": torch.tensor([1, 2]),
        "boxes": torch.tensor([[0.3, 0.5, 0.2, 0.2], [0.7, 0.5, 0.2, 0.3]]),
    },
]
learn(finder, pixel_values=images, labels=boxes)
say(*found)
