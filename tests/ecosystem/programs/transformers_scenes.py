"""Depth, detection, segmentation, pictures with words."""

import torch
import transformers as tr
from common import fill, flat, picture, say, train
from small_transformers import PICTURES, SMALL, ids, learn, mask, pictures

found = []


def upernet():
    """Upernet."""
    c = tr.UperNetConfig(
        backbone_config=tr.ConvNextConfig(
            hidden_sizes=[8, 8, 16, 16],
            depths=[1, 1, 1, 1],
            num_stages=4,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        ),
        hidden_size=16,
        pool_scales=[1, 2],
        use_auxiliary_head=True,
        auxiliary_in_channels=16,
        auxiliary_channels=8,
        num_labels=3,
    )
    return learn(
        tr.UperNetForSemanticSegmentation(c),
        pixel_values=pictures,
        labels=torch.zeros(2, 32, 32, dtype=torch.long),
    )


def depth_anything():
    """Depth anything."""
    b = tr.Dinov2Config(
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    )
    m = fill(
        tr.DepthAnythingForDepthEstimation(
            tr.DepthAnythingConfig(
                backbone_config=b,
                reassemble_hidden_size=16,
                neck_hidden_sizes=[8, 8, 16, 16],
                fusion_hidden_size=8,
                head_hidden_size=8,
            )
        )
    )
    return train(
        m, lambda: m(pixel_values=picture(1, 3, 28, 28)).predicted_depth.pow(2).mean(), steps=2
    )


def yolos():
    """Yolos."""
    m = tr.YolosForObjectDetection(
        tr.YolosConfig(
            **SMALL,
            image_size=[32, 32],
            patch_size=8,
            num_detection_tokens=4,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    return learn(
        m,
        pixel_values=pictures,
        labels=[{"class_labels": torch.tensor([1]), "boxes": torch.tensor([[0.5, 0.5, 0.3, 0.3]])}]
        * 2,
    )


def rtdetr():
    """Rtdetr."""
    bb = tr.RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    m = fill(
        tr.RTDetrForObjectDetection(
            tr.RTDetrConfig(
                backbone_config=bb,
                encoder_hidden_dim=16,
                encoder_in_channels=[16, 16, 16],
                feat_strides=[8, 16, 32],
                encoder_layers=1,
                encoder_ffn_dim=16,
                encoder_attention_heads=2,
                d_model=16,
                decoder_in_channels=[16, 16, 16],
                decoder_ffn_dim=16,
                decoder_layers=2,
                decoder_attention_heads=2,
                num_queries=4,
                num_denoising=0,
                dropout=0.0,
                num_labels=3,
                hidden_expansion=0.5,
            )
        )
    ).eval()
    o = m(pixel_values=picture(2, 3, 64, 64))
    return [o.logits, o.pred_boxes]


def groupvit_clipseg():
    """Groupvit clipseg."""
    t = dict(vocab_size=40, **SMALL, max_position_embeddings=16, projection_dim=8, eos_token_id=2)
    c = tr.CLIPSegConfig(
        text_config=t,
        vision_config=dict(**SMALL, image_size=32, patch_size=8, projection_dim=8),
        projection_dim=8,
        extract_layers=[0, 1],
        reduce_dim=8,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=16,
    )
    m = fill(tr.CLIPSegForImageSegmentation(c)).eval()
    return m(input_ids=ids, attention_mask=mask, pixel_values=pictures).logits


def blip():
    """Blip."""
    t = dict(
        vocab_size=40,
        **SMALL,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        encoder_hidden_size=16,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        sep_token_id=2,
    )
    m = tr.BlipForConditionalGeneration(
        tr.BlipConfig(
            text_config=t,
            vision_config=dict(**SMALL, image_size=32, patch_size=8),
            projection_dim=8,
        )
    )
    r = learn(m, input_ids=ids, attention_mask=mask, pixel_values=pictures, labels=ids)
    m.eval()
    return r + m.generate(pixel_values=pictures, max_new_tokens=4).flatten().tolist()


def git():
    """Git."""
    m = tr.GitForCausalLM(
        tr.GitConfig(
            vocab_size=40,
            **SMALL,
            max_position_embeddings=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            vision_config=dict(**SMALL, image_size=32, patch_size=8),
        )
    )
    return learn(m, input_ids=ids, attention_mask=mask, pixel_values=pictures, labels=ids)


def llava():
    """Llava."""
    c = tr.LlavaConfig(
        vision_config=tr.CLIPVisionConfig(**SMALL, image_size=32, patch_size=16, projection_dim=8),
        text_config=tr.LlamaConfig(
            vocab_size=40, **SMALL, num_key_value_heads=2, max_position_embeddings=64
        ),
        image_token_index=39,
        vision_feature_layer=-1,
    )
    m = tr.LlavaForConditionalGeneration(c)
    i = ids.clone()
    i[:, 1:5] = 39
    return learn(m, input_ids=i, pixel_values=pictures, labels=ids)


def visiontextdual():
    """Visiontextdual."""
    m = tr.VisionTextDualEncoderModel(
        tr.VisionTextDualEncoderConfig(
            vision_config=tr.ViTConfig(**{k: v for k, v in PICTURES.items()}).to_dict(),
            text_config=tr.BertConfig(
                vocab_size=40, **SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
            ).to_dict(),
            projection_dim=8,
        )
    )
    return learn(m, input_ids=ids, attention_mask=mask, pixel_values=pictures, return_loss=True)


def vision_encoder_decoder():
    """Vision encoder decoder."""
    m = tr.VisionEncoderDecoderModel(
        encoder=tr.ViTModel(tr.ViTConfig(**PICTURES)),
        decoder=tr.GPT2LMHeadModel(
            tr.GPT2Config(
                vocab_size=40,
                n_embd=16,
                n_layer=1,
                n_head=2,
                n_positions=32,
                add_cross_attention=True,
                is_decoder=True,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
            )
        ),
    )
    m.config.decoder_start_token_id = 1
    m.config.pad_token_id = 0
    r = learn(m, pixel_values=pictures, labels=ids)
    m.eval()
    return (
        r
        + m.generate(
            pixel_values=pictures, max_new_tokens=4, decoder_start_token_id=1, pad_token_id=0
        )
        .flatten()
        .tolist()
    )


def encoder_decoder():
    """Encoder decoder."""
    b = dict(vocab_size=40, **SMALL, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    m = tr.EncoderDecoderModel(
        config=tr.EncoderDecoderConfig.from_encoder_decoder_configs(
            tr.BertConfig(**b), tr.BertConfig(**b)
        )
    )
    m.config.decoder_start_token_id = 1
    m.config.pad_token_id = 0
    return learn(m, input_ids=ids, attention_mask=mask, labels=ids)


def speech_seq2seq_s2t():
    """Speech seq2seq s2t."""
    m = tr.Speech2TextForConditionalGeneration(
        tr.Speech2TextConfig(
            vocab_size=40,
            encoder_layers=1,
            decoder_layers=1,
            d_model=16,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            input_feat_per_channel=8,
            conv_channels=16,
            dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            max_source_positions=64,
            max_target_positions=32,
        )
    )
    return learn(m, input_features=picture(2, 32, 8), labels=ids)


for part in (
    upernet,
    depth_anything,
    yolos,
    rtdetr,
    groupvit_clipseg,
    blip,
    git,
    llava,
    visiontextdual,
    vision_encoder_decoder,
    encoder_decoder,
    speech_seq2seq_s2t,
):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
