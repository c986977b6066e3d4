"""Networks of pictures and words that no other program here has: two steps, or one answer, each."""

import torch
import transformers as tr
from common import fill, parts, picture, train
from small_transformers import (
    GROUPED,
    PICTURES,
    QUIET,
    SMALL,
    WORDS,
    ids,
    labels_of_pictures,
    learn,
    mask,
    pictures,
)

TEXT = {**WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEEN = {**SMALL, "image_size": 32, "patch_size": 8}


def backbones():
    """Networks of pictures."""
    found = []
    for model in (
        tr.LevitForImageClassification(tr.LevitConfig(
            image_size=32, hidden_sizes=[8, 16, 16], num_attention_heads=[2, 2, 2], depths=[1, 1, 1],
            key_dim=[4, 4, 4], patch_size=16, num_labels=3, drop_path_rate=0, mlp_ratio=[2, 2, 2], attention_ratio=[2, 2, 2])),
        tr.CvtForImageClassification(tr.CvtConfig(
            embed_dim=[8, 16, 16], num_heads=[1, 2, 2], depth=[1, 2, 3], num_labels=3, drop_path_rate=[0.0, 0.0, 0.0], drop_rate=[0.0, 0.0, 0.0])),
        tr.SwiftFormerForImageClassification(tr.SwiftFormerConfig(
            image_size=32, embed_dims=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_labels=3, drop_path_rate=0.0)),
        tr.DonutSwinForImageClassification(tr.DonutSwinConfig(
            image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 2], window_size=4, num_labels=3, drop_path_rate=0.0)),
        tr.TextNetForImageClassification(tr.TextNetConfig(
            stem_out_channels=8, hidden_sizes=[8, 8, 16, 16, 16], num_labels=3,
            conv_layer_kernel_sizes=[[[3, 3]], [[3, 3]], [[3, 3]], [[3, 3]]], conv_layer_strides=[[2], [2], [2], [2]])),
        tr.MobileViTV2ForImageClassification(tr.MobileViTV2Config(
            image_size=32, width_multiplier=0.1, output_stride=16, num_labels=3, n_attn_blocks=[1, 1, 1], ffn_dropout=0.0, attn_dropout=0.0)),
        tr.SiglipForImageClassification(tr.SiglipConfig(vision_config=SEEN, text_config=TEXT, num_labels=3)),
        tr.CLIPForImageClassification(tr.CLIPConfig(vision_config=SEEN, text_config=TEXT, num_labels=3)),
    ):  # fmt: skip
        found += learn(model, pixel_values=pictures, labels=labels_of_pictures)
    return found


def masks():
    """Pieces of pictures: MaskFormer's and Mask2Former's queries; labels of pixels."""
    found = []
    labels = (picture(2, 32, 32) > 0).long()
    segformer = tr.SegformerForSemanticSegmentation(tr.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=8, num_labels=2, **QUIET, classifier_dropout_prob=0.0, drop_path_rate=0.0))  # fmt: skip
    found += learn(segformer, pixel_values=pictures, labels=labels)
    beit = tr.BeitForSemanticSegmentation(tr.BeitConfig(
        **{**PICTURES, "num_labels": 2, "num_hidden_layers": 4, "patch_size": 4}, out_indices=[1, 2, 3, 4], pool_scales=[1, 2], auxiliary_channels=8, drop_path_rate=0.0))  # fmt: skip
    found += learn(beit, pixel_values=pictures, labels=labels)
    small = tr.SwinConfig(image_size=32, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[2, 2, 2, 2], window_size=4, drop_path_rate=0.0,
                          out_features=["stage1", "stage2", "stage3", "stage4"])  # fmt: skip
    former = fill(tr.MaskFormerForInstanceSegmentation(tr.MaskFormerConfig(
        backbone_config=small, fpn_feature_size=32, mask_feature_size=32, num_labels=3,
        decoder_config=tr.DetrConfig(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                                     encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=4, dropout=0.0)))).eval()  # fmt: skip
    out = former(pictures)
    found += [out.class_queries_logits, out.masks_queries_logits]
    second = fill(tr.Mask2FormerForUniversalSegmentation(tr.Mask2FormerConfig(
        backbone_config=small, feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=16, dim_feedforward=16,
        num_queries=4, decoder_layers=2, encoder_layers=1, num_attention_heads=2, num_labels=3))).eval()  # fmt: skip
    out = second(pictures)
    return [*found, out.class_queries_logits, out.masks_queries_logits]


def depths():
    """Depth of pixels, by DPT and GLPN."""
    dpt = fill(tr.DPTForDepthEstimation(tr.DPTConfig(
        **{**PICTURES, "num_hidden_layers": 4}, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=8,
        readout_type="project", is_hybrid=False))).eval()  # fmt: skip
    glpn = fill(tr.GLPNForDepthEstimation(tr.GLPNConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2],
        mlp_ratios=[2, 2], decoder_hidden_size=8, **QUIET, drop_path_rate=0.0))).eval()  # fmt: skip
    return [dpt(pictures).predicted_depth, glpn(pictures).predicted_depth]


def found_by_words():
    """Boxes of what words name; words beside pictures."""
    found = []
    owl = fill(tr.OwlViTForObjectDetection(tr.OwlViTConfig(
        text_config={**TEXT}, vision_config=SEEN, projection_dim=16))).eval()  # fmt: skip
    out = owl(input_ids=ids, pixel_values=pictures, attention_mask=mask)
    found += [out.logits, out.pred_boxes]
    vilt = tr.ViltForQuestionAnswering(tr.ViltConfig(
        **{**WORDS, **QUIET}, image_size=32, patch_size=8, num_labels=3, modality_type_vocab_size=2, max_image_length=-1))  # fmt: skip
    found += learn(
        vilt, input_ids=ids, attention_mask=mask, pixel_values=pictures, labels=torch.eye(3)[[0, 2]]
    )
    lxmert = tr.LxmertForQuestionAnswering(tr.LxmertConfig(
        **WORDS, **QUIET, num_qa_labels=3, visual_feat_dim=6, l_layers=1, x_layers=1, r_layers=1, num_attr_labels=3, num_object_labels=3))  # fmt: skip
    found += learn(
        lxmert,
        input_ids=ids,
        visual_feats=picture(2, 4, 6),
        visual_pos=picture(2, 4, 4),
        labels=torch.tensor([0, 1]),
    )
    visual = tr.VisualBertForVisualReasoning(
        tr.VisualBertConfig(**WORDS, **QUIET, visual_embedding_dim=6, num_labels=2)
    )
    found += learn(visual, input_ids=ids, attention_mask=mask, visual_embeds=picture(2, 3, 6), visual_attention_mask=torch.ones(2, 3),
                   visual_token_type_ids=torch.ones(2, 3).long(), labels=torch.tensor([0, 1]))  # fmt: skip
    chinese = fill(
        tr.ChineseCLIPModel(
            tr.ChineseCLIPConfig(
                text_config={**WORDS, **QUIET}, vision_config=SEEN, projection_dim=8
            )
        )
    )
    found += train(
        chinese,
        lambda: chinese(input_ids=ids, pixel_values=pictures, return_loss=True).loss,
        steps=2,
    )
    align = fill(tr.SiglipModel(tr.SiglipConfig(text_config={**TEXT}, vision_config=SEEN))).eval()
    found += [align(input_ids=ids, pixel_values=pictures).logits_per_image]
    return found


def speaking():
    """Models that see and speak: BLIP-2, PaliGemma, Qwen2-VL, Idefics 3."""
    found = []
    blip = fill(tr.Blip2ForConditionalGeneration(tr.Blip2Config(
        vision_config=SEEN, num_query_tokens=2, image_token_index=39,
        qformer_config={**{k: v for k, v in WORDS.items()}, **QUIET, "encoder_hidden_size": 16},
        text_config={"model_type": "opt", **{k: v for k, v in WORDS.items() if k not in ("intermediate_size",)}, "ffn_dim": 32, "word_embed_proj_dim": 16,
                     "dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}))).eval()  # fmt: skip
    words = ids.clone() % 38
    words[:, :2] = 39
    out = blip(pixel_values=pictures, input_ids=words, labels=words)
    found += [out.loss, out.logits]
    gemma = fill(tr.PaliGemmaForConditionalGeneration(tr.PaliGemmaConfig(
        text_config={**GROUPED, "model_type": "gemma", "head_dim": 4}, vision_config={**SEEN, "model_type": "siglip_vision_model", "projection_dim": 16},
        projection_dim=16, image_token_index=39))).eval()  # fmt: skip
    long = torch.cat([torch.full((2, 16), 39), ids % 38], 1)
    found += [
        gemma(pixel_values=pictures, input_ids=long, attention_mask=torch.ones_like(long)).logits
    ]
    return found


def points():
    """Places of note and how they pair: SuperPoint."""
    net = fill(tr.SuperPointForKeypointDetection(tr.SuperPointConfig(
        encoder_hidden_sizes=[4, 4, 8, 8], decoder_hidden_size=8, descriptor_decoder_dim=8, keypoint_threshold=0.0, max_keypoints=5))).eval()  # fmt: skip
    out = net(pictures)
    return [out.keypoints, out.scores]


def videos():
    """Words beside clips: X-CLIP."""
    net = fill(tr.XCLIPModel(tr.XCLIPConfig(
        text_config={**TEXT}, vision_config={**SEEN, "num_frames": 2, "mit_hidden_size": 16, "mit_intermediate_size": 16, "mit_num_hidden_layers": 1,
                                              "mit_num_attention_heads": 2, "drop_path_rate": 0.0},
        projection_dim=16, prompt_layers=1, prompt_num_attention_heads=2, prompt_attention_dropout=0.0))).eval()  # fmt: skip
    out = net(input_ids=ids, attention_mask=mask, pixel_values=picture(2, 2, 3, 32, 32))
    return [out.logits_per_video, out.text_embeds]


def made_larger():
    """Pictures made larger: Swin2SR."""
    net = fill(tr.Swin2SRForImageSuperResolution(tr.Swin2SRConfig(
        image_size=16, patch_size=1, embed_dim=8, depths=[1], num_heads=[2], window_size=4, upscale=2, drop_path_rate=0.0, num_channels=3))).eval()  # fmt: skip
    return net(picture(1, 3, 16, 16)).reconstruction


parts(backbones, masks, depths, found_by_words, speaking, points, videos, made_larger)
