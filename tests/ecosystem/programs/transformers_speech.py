"""Speech and sound: words by CTC, codes of sound, voices, and pictures of it; features of waves."""

import numpy as np
import torch
import transformers as tr
from common import fill, parts, picture, train

sound = picture(2, 1600)
EARS = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "conv_dim": (8, 8), "conv_kernel": (5, 3), "conv_stride": (4, 2), "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "vocab_size": 12, "num_feat_extract_layers": 2,
    "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "layerdrop": 0.0,
    "feat_proj_dropout": 0.0, "final_dropout": 0.0, "apply_spec_augment": False,
}  # fmt: skip
labels = torch.tensor([[1, 2, 3, 4], [5, 6, -100, -100]])


def learn(model, **given):
    """Two steps."""
    model = fill(model).train()
    return train(model, lambda: model(**given).loss, steps=2, lr=1e-3)


def ctc():
    """Words aligned with sound."""
    found = []
    for config, make in (
        (tr.Wav2Vec2Config, tr.Wav2Vec2ForCTC),
        (tr.HubertConfig, tr.HubertForCTC),
        (tr.WavLMConfig, tr.WavLMForCTC),
        (tr.UniSpeechConfig, tr.UniSpeechForCTC),
        (tr.UniSpeechSatConfig, tr.UniSpeechSatForCTC),
        (tr.SEWConfig, tr.SEWForCTC),
    ):
        found += learn(make(config(**EARS)), input_values=sound, labels=labels)
    return found


def conformer():
    """Convolutions with attention."""
    config = tr.Wav2Vec2ConformerConfig(
        **EARS, conv_depthwise_kernel_size=3, conformer_conv_dropout=0.0
    )
    return learn(tr.Wav2Vec2ConformerForCTC(config), input_values=sound, labels=labels)


def heads():
    """Speakers, frames, audio classes."""
    config = tr.Wav2Vec2Config(
        **EARS, num_labels=3, classifier_proj_size=8, tdnn_dim=(8, 8, 12), tdnn_kernel=(3, 3, 1),
        tdnn_dilation=(1, 2, 1), xvector_output_dim=6, mask_time_prob=0.0,
    )  # fmt: skip
    classes = torch.tensor([0, 2])
    found = learn(tr.Wav2Vec2ForSequenceClassification(config), input_values=sound, labels=classes)
    found += learn(tr.Wav2Vec2ForXVector(config), input_values=sound, labels=classes)
    frames = fill(tr.Wav2Vec2ForAudioFrameClassification(config))(sound).logits
    return [found, frames]


def codes():
    """Sound as codes and back: EnCodec, DAC."""
    found = []
    encodec = fill(
        tr.EncodecModel(
            tr.EncodecConfig(
                hidden_size=8, num_filters=4, codebook_size=16, codebook_dim=8, upsampling_ratios=[4, 2],
                target_bandwidths=[24.0], sampling_rate=8000, num_lstm_layers=1,
            )
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        out = encodec.encode(sound[:, None, :320], bandwidth=24.0)
        back = encodec.decode(out.audio_codes, out.audio_scales)[0]
    found += [out.audio_codes.float(), back]
    dac = fill(
        tr.DacModel(
            tr.DacConfig(
                encoder_hidden_size=4, downsampling_ratios=[2, 2], decoder_hidden_size=16, n_codebooks=2,
                codebook_size=16, codebook_dim=4, upsampling_ratios=[2, 2], hidden_size=16,
            )
        )
    )  # fmt: skip
    out = dac(sound[:, None, :64])
    return [*found, out.audio_values, out.audio_codes.float()]


def whisper():
    """Written from sound, with times forbidden, and classes of sound."""
    config = tr.WhisperConfig(
        vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8,
        max_source_positions=20, max_target_positions=16, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, dropout=0.0, suppress_tokens=None, num_labels=3,
        begin_suppress_tokens=None,
    )  # fmt: skip
    heard = picture(2, 8, 40)
    model = fill(tr.WhisperForConditionalGeneration(config))
    found = train(
        model, lambda: model(input_features=heard, labels=labels[:, :3].clamp(0)).loss, steps=2
    )
    said = model.eval().generate(heard, max_new_tokens=4, do_sample=False)
    classes = fill(tr.WhisperForAudioClassification(config))
    found += train(
        classes, lambda: classes(input_features=heard, labels=torch.tensor([0, 2])).loss, steps=2
    )
    return [found, said]


def voices():
    """A voice from its spectrum."""
    hifi = fill(
        tr.SpeechT5HifiGan(
            tr.SpeechT5HifiGanConfig(
                model_in_dim=8, upsample_initial_channel=8, upsample_rates=[2, 2],
                upsample_kernel_sizes=[4, 4], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]],
            )
        )
    ).eval()  # fmt: skip
    return hifi(picture(10, 8))


def features():
    """Features of waves, as processors make them."""
    wave = np.sin(np.arange(3200) * 0.05).astype("float32")
    found = []
    mel = tr.WhisperFeatureExtractor(feature_size=16, chunk_length=1, n_fft=200, hop_length=80)
    found.append(mel(wave, sampling_rate=16000, return_tensors="pt").input_features)
    plain = tr.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True)
    batch = plain([wave, wave[:1000]], sampling_rate=16000, padding=True, return_tensors="pt")
    found += [batch.input_values, batch.attention_mask]
    pictures = tr.SeamlessM4TFeatureExtractor(feature_size=16, num_mel_bins=16)
    found.append(pictures(wave, sampling_rate=16000, return_tensors="pt").input_features)
    return found


parts(ctc, conformer, heads, codes, whisper, voices, features)
