"""Classifiers of pictures, each by its own configuration."""

import torch
import transformers as tr
from common import say
from small_transformers import PICTURES, labels_of_pictures, learn, pictures

found = []


def vis(name, make):
    """Two steps of training."""
    torch.manual_seed(0)
    found.extend(learn(make(), pixel_values=pictures, labels=labels_of_pictures))


vis("vitmsn", lambda: tr.ViTMSNForImageClassification(tr.ViTMSNConfig(**PICTURES)))
vis(
    "dinov3",
    lambda: tr.Dinov2WithRegistersForImageClassification(
        tr.Dinov2WithRegistersConfig(
            **{k: v for k, v in PICTURES.items() if k != "intermediate_size"}, num_register_tokens=2
        )
    ),
)
vis(
    "data2vecvision",
    lambda: tr.Data2VecVisionForImageClassification(tr.Data2VecVisionConfig(**PICTURES)),
)
vis(
    "mobilenetv1",
    lambda: tr.MobileNetV1ForImageClassification(
        tr.MobileNetV1Config(
            image_size=32, depth_multiplier=0.25, num_labels=3, classifier_dropout_prob=0.0
        )
    ),
)
vis(
    "mobilenetv2",
    lambda: tr.MobileNetV2ForImageClassification(
        tr.MobileNetV2Config(
            image_size=32, depth_multiplier=0.35, num_labels=3, classifier_dropout_prob=0.0
        )
    ),
)
vis(
    "mobilevit",
    lambda: tr.MobileViTForImageClassification(
        tr.MobileViTConfig(
            image_size=32,
            hidden_sizes=[16, 24, 32],
            neck_hidden_sizes=[4, 4, 8, 8, 16, 16, 32],
            num_attention_heads=2,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            classifier_dropout_prob=0.0,
        )
    ),
)
vis(
    "regnet",
    lambda: tr.RegNetForImageClassification(
        tr.RegNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 16, 16, 16],
            depths=[1, 1, 1, 1],
            groups_width=4,
            num_labels=3,
        )
    ),
)
vis(
    "poolformer",
    lambda: tr.PoolFormerForImageClassification(
        tr.PoolFormerConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_labels=3)
    ),
)
vis(
    "pvt",
    lambda: tr.PvtForImageClassification(
        tr.PvtConfig(
            image_size=32,
            hidden_sizes=[8, 8, 16, 16],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 1, 2, 2],
            num_labels=3,
        )
    ),
)
vis(
    "pvtv2",
    lambda: tr.PvtV2ForImageClassification(
        tr.PvtV2Config(
            image_size=32,
            hidden_sizes=[8, 8, 16, 16],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 1, 2, 2],
            num_labels=3,
        )
    ),
)
vis(
    "focalnet",
    lambda: tr.FocalNetForImageClassification(
        tr.FocalNetConfig(
            image_size=32,
            embed_dim=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            focal_levels=[1, 1],
            focal_windows=[3, 3],
            num_labels=3,
        )
    ),
)
vis(
    "swinv2",
    lambda: tr.Swinv2ForImageClassification(
        tr.Swinv2Config(
            image_size=32,
            patch_size=4,
            embed_dim=8,
            depths=[1, 1],
            num_heads=[1, 2],
            window_size=4,
            num_labels=3,
            drop_path_rate=0.0,
        )
    ),
)
vis(
    "bit",
    lambda: tr.BitForImageClassification(
        tr.BitConfig(
            embedding_size=8, hidden_sizes=[32, 32], depths=[1, 1], num_groups=4, num_labels=3
        )
    ),
)
vis(
    "efficientnet",
    lambda: tr.EfficientNetForImageClassification(
        tr.EfficientNetConfig(
            image_size=32,
            width_coefficient=0.25,
            depth_coefficient=0.3,
            hidden_dim=320,
            num_labels=3,
            dropout_rate=0.0,
            drop_connect_rate=0.0,
        )
    ),
)
vis(
    "hiera",
    lambda: tr.HieraForImageClassification(
        tr.HieraConfig(
            image_size=[32, 32],
            embed_dim=8,
            depths=[1, 1],
            num_heads=[1, 2],
            patch_size=[7, 7],
            patch_stride=[4, 4],
            patch_padding=[3, 3],
            masked_unit_size=[4, 4],
            query_stride=[2, 2],
            num_query_pool=1,
            mlp_ratio=2.0,
            drop_path_rate=0.0,
            num_labels=3,
        )
    ),
)
vis("vitdet_ijepa", lambda: tr.IJepaForImageClassification(tr.IJepaConfig(**PICTURES)))
vis(
    "hgnet",
    lambda: tr.HGNetV2ForImageClassification(
        tr.HGNetV2Config(
            num_labels=3,
            stem_channels=[3, 8, 8],
            stage_in_channels=[8, 16, 16, 16],
            stage_mid_channels=[8, 8, 8, 8],
            stage_out_channels=[16, 16, 16, 16],
            hidden_sizes=[16, 16, 16, 16],
            stage_num_blocks=[1, 1, 1, 1],
            stage_numb_of_layers=[2, 2, 2, 2],
            embedding_size=8,
            depths=[1, 1, 1, 1],
        )
    ),
)
say(*found)
