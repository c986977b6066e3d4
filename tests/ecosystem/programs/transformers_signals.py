"""Speech, series, decisions, tables, videos."""

import torch
import transformers as tr
from common import fill, flat, picture, say, train
from small_transformers import PICTURES, SMALL, ids, labels_of_pictures, learn, mask, pictures

found = []


def ast():
    """Ast."""
    m = tr.ASTForAudioClassification(
        tr.ASTConfig(
            **SMALL,
            patch_size=4,
            max_length=16,
            num_mel_bins=8,
            frequency_stride=4,
            time_stride=4,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    return learn(m, input_values=picture(2, 16, 8), labels=labels_of_pictures)


def wavlm():
    """Wavlm."""
    m = tr.WavLMForSequenceClassification(
        tr.WavLMConfig(
            **SMALL,
            conv_dim=[8, 8],
            conv_stride=[4, 2],
            conv_kernel=[8, 4],
            num_feat_extract_layers=2,
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
            num_labels=3,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            feat_proj_dropout=0.0,
            layerdrop=0.0,
            apply_spec_augment=False,
            classifier_proj_size=8,
        )
    )
    return learn(m, input_values=picture(2, 400), labels=labels_of_pictures)


def vits():
    """Vits."""
    m = fill(
        tr.VitsModel(
            tr.VitsConfig(
                vocab_size=40,
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                ffn_dim=32,
                spectrogram_bins=17,
                flow_size=16,
                upsample_initial_channel=16,
                upsample_rates=[4, 2],
                upsample_kernel_sizes=[8, 4],
                resblock_kernel_sizes=[3],
                resblock_dilation_sizes=[[1, 3]],
                depth_separable_num_layers=1,
                duration_predictor_num_flows=2,
                duration_predictor_flow_bins=4,
                prior_encoder_num_flows=2,
                posterior_encoder_num_wavenet_layers=2,
                prior_encoder_num_wavenet_layers=2,
                noise_scale=0.0,
                noise_scale_duration=0.0,
            )
        )
    ).eval()
    with torch.no_grad():
        return m(input_ids=ids[:1]).waveform


def timeseries():
    """Timeseries."""
    m = tr.TimeSeriesTransformerForPrediction(
        tr.TimeSeriesTransformerConfig(
            prediction_length=4,
            context_length=8,
            lags_sequence=[1, 2],
            num_time_features=1,
            d_model=8,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=16,
            decoder_ffn_dim=16,
            dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
        )
    )
    return learn(
        m,
        past_values=picture(2, 10),
        past_time_features=picture(2, 10, 1),
        past_observed_mask=torch.ones(2, 10),
        future_values=picture(2, 4),
        future_time_features=picture(2, 4, 1),
    )


def patchtst():
    """Patchtst."""
    m = tr.PatchTSTForPrediction(
        tr.PatchTSTConfig(
            num_input_channels=2,
            context_length=16,
            patch_length=4,
            patch_stride=4,
            d_model=8,
            num_attention_heads=2,
            num_hidden_layers=1,
            ffn_dim=16,
            prediction_length=4,
            attention_dropout=0.0,
            positional_dropout=0.0,
            ff_dropout=0.0,
            head_dropout=0.0,
            scaling="std",
        )
    )
    return learn(m, past_values=picture(2, 16, 2), future_values=picture(2, 4, 2))


def decision():
    """Decision."""
    m = fill(
        tr.DecisionTransformerModel(
            tr.DecisionTransformerConfig(
                state_dim=3,
                act_dim=2,
                hidden_size=16,
                n_layer=1,
                n_head=2,
                n_inner=16,
                max_ep_len=20,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
            )
        )
    )
    return train(
        m,
        lambda: (
            m(
                states=picture(2, 5, 3),
                actions=picture(2, 5, 2),
                rewards=picture(2, 5, 1),
                returns_to_go=picture(2, 5, 1),
                timesteps=torch.arange(5).repeat(2, 1),
                attention_mask=torch.ones(2, 5),
            )
            .action_preds.pow(2)
            .mean()
        ),
    )


def perceiver():
    """Perceiver."""
    m = tr.PerceiverForMaskedLM(
        tr.PerceiverConfig(
            num_latents=4,
            d_latents=16,
            d_model=16,
            num_blocks=1,
            num_self_attends_per_block=2,
            num_self_attention_heads=2,
            num_cross_attention_heads=2,
            vocab_size=40,
            max_position_embeddings=8,
            attention_probs_dropout_prob=0.0,
        )
    )
    return learn(m, inputs=ids, attention_mask=mask, labels=ids)


def layoutlm():
    """Layoutlm."""
    m = tr.LayoutLMv3ForTokenClassification(
        tr.LayoutLMv3Config(
            vocab_size=40,
            **SMALL,
            max_position_embeddings=32,
            max_2d_position_embeddings=64,
            coordinate_size=2,
            shape_size=4,
            input_size=32,
            patch_size=8,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            rel_pos_bins=8,
            max_rel_pos=16,
            rel_2d_pos_bins=8,
            max_rel_2d_pos=16,
        )
    )
    return learn(
        m,
        input_ids=ids,
        attention_mask=mask,
        bbox=torch.arange(64).reshape(2, 8, 4) % 32,
        pixel_values=pictures,
        labels=ids % 3,
    )


def tapas():
    """Tapas."""
    m = tr.TapasForQuestionAnswering(
        tr.TapasConfig(
            vocab_size=40,
            **SMALL,
            max_position_embeddings=32,
            type_vocab_sizes=[3, 8, 8, 2, 8, 8, 4],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    return learn(
        m,
        input_ids=ids,
        attention_mask=mask,
        token_type_ids=torch.ones(2, 8, 7, dtype=torch.long),
        labels=ids % 2,
    )


def sam():
    """Sam."""
    c = tr.SamConfig(
        vision_config=dict(
            **{k: v for k, v in SMALL.items()},
            output_channels=8,
            image_size=32,
            patch_size=8,
            global_attn_indexes=[1],
            window_size=2,
            num_pos_feats=4,
            mlp_dim=16,
        ),
        prompt_encoder_config=dict(
            hidden_size=8, image_size=32, patch_size=8, mask_input_channels=4
        ),
        mask_decoder_config=dict(
            hidden_size=8,
            mlp_dim=16,
            num_attention_heads=2,
            iou_head_hidden_dim=8,
            num_hidden_layers=1,
        ),
    )
    m = fill(tr.SamModel(c)).eval()
    o = m(pixel_values=pictures, input_points=torch.tensor([[[[4.0, 5.0]]], [[[8.0, 9.0]]]]))
    return [o.pred_masks, o.iou_scores]


def videomae():
    """Videomae."""
    m = tr.VideoMAEForVideoClassification(
        tr.VideoMAEConfig(**PICTURES, num_frames=4, tubelet_size=2)
    )
    return learn(m, pixel_values=picture(2, 4, 3, 32, 32), labels=labels_of_pictures)


def timesformer():
    """Timesformer."""
    m = tr.TimesformerForVideoClassification(tr.TimesformerConfig(**PICTURES, num_frames=2))
    return learn(m, pixel_values=picture(2, 2, 3, 32, 32), labels=labels_of_pictures)


def vivit():
    """Vivit."""
    m = tr.VivitForVideoClassification(
        tr.VivitConfig(
            **{k: v for k, v in PICTURES.items() if k != "patch_size"},
            num_frames=4,
            tubelet_size=[2, 8, 8],
        )
    )
    return learn(m, pixel_values=picture(2, 4, 3, 32, 32), labels=labels_of_pictures)


for part in (
    ast,
    wavlm,
    vits,
    timeseries,
    patchtst,
    decision,
    perceiver,
    layoutlm,
    tapas,
    sam,
    videomae,
    timesformer,
    vivit,
):
    torch.manual_seed(0)
    found += flat(part())
say(*found)
