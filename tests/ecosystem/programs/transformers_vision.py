import numpy as np
import torch
from common import fill, picture, say, train
from transformers import (
    BeitConfig,
    BeitForImageClassification,
    CLIPConfig,
    CLIPModel,
    CLIPTextConfig,
    CLIPVisionConfig,
    ConvNextConfig,
    ConvNextForImageClassification,
    DeiTConfig,
    DeiTForImageClassification,
    Dinov2Config,
    Dinov2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SwinConfig,
    SwinForImageClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTMAEConfig,
    ViTMAEForPreTraining,
    Wav2Vec2Config,
    Wav2Vec2ForCTC,
)

small = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "image_size": 16, "patch_size": 4, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    "num_labels": 3, "drop_path_rate": 0.0,
}  # fmt: skip
x, y = picture(2, 3, 16, 16), torch.tensor([0, 2])
found = []
for model in (
    ViTForImageClassification(ViTConfig(**small)),
    DeiTForImageClassification(DeiTConfig(**small)),
    BeitForImageClassification(BeitConfig(**small, use_relative_position_bias=True)),
    Dinov2ForImageClassification(Dinov2Config(**small)),
    SwinForImageClassification(
        SwinConfig(
            image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=2,
            num_labels=3, drop_path_rate=0.0,
        )
    ),
    ConvNextForImageClassification(
        ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, patch_size=2, num_labels=3)
    ),
    ResNetForImageClassification(
        ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
                     num_labels=3)
    ),
):  # fmt: skip
    fill(model)
    found += train(model, lambda: model(pixel_values=x, labels=y).loss, steps=2, lr=0.01)
segment = fill(
    SegformerForSemanticSegmentation(
        SegformerConfig(
            num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16],
            patch_sizes=[3, 3], strides=[2, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
            decoder_hidden_size=8, hidden_dropout_prob=0.0, classifier_dropout_prob=0.0, num_labels=3,
            drop_path_rate=0.0,
        )
    )
)  # fmt: skip
where = torch.arange(512).reshape(2, 16, 16) % 3
found += train(segment, lambda: segment(pixel_values=x, labels=where).loss, steps=2, lr=0.01)
masked = fill(
    ViTMAEForPreTraining(
        ViTMAEConfig(**{k: v for k, v in small.items() if k not in ("num_labels", "drop_path_rate")},
                     decoder_hidden_size=8, decoder_num_hidden_layers=1, decoder_num_attention_heads=2,
                     decoder_intermediate_size=16)
    )
)  # fmt: skip
noise = picture(2, 16)
found += train(masked, lambda: masked(pixel_values=x, noise=noise).loss, steps=2, lr=0.01)
shape = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
clip = fill(
    CLIPModel(
        CLIPConfig(
            text_config=CLIPTextConfig(
                **shape, vocab_size=40, max_position_embeddings=16, eos_token_id=2, bos_token_id=1
            ).to_dict(),
            vision_config=CLIPVisionConfig(**shape, image_size=16, patch_size=8).to_dict(),
            projection_dim=8,
        )
    )
)
ids = torch.tensor([[1, 5, 6, 2], [1, 9, 2, 2]])
found += train(clip, lambda: clip(input_ids=ids, pixel_values=x, return_loss=True).loss, steps=2)
speech = fill(
    Wav2Vec2ForCTC(
        Wav2Vec2Config(
            vocab_size=10, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=32, conv_dim=(8, 8), conv_stride=(4, 2), conv_kernel=(8, 4),
            num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, hidden_dropout=0.0,
            activation_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0, final_dropout=0.0,
            layerdrop=0.0, mask_time_prob=0.0, apply_spec_augment=False, feat_extract_norm="layer",
            do_stable_layer_norm=True,
        )
    )
)  # fmt: skip
np.random.seed(0)
said = torch.tensor([[1, 2, 3], [4, 5, -100]])
found += train(speech, lambda: speech(input_values=picture(2, 160), labels=said).loss, steps=2)
say(*found)
