import tempfile

import torch
from common import fill, picture, say, train
from transformers import (
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

found = []
small = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}
ids = torch.arange(16).reshape(2, 8) * 3 % 40
for config, kind in (
    (Qwen2Config(**small), Qwen2ForCausalLM),
    (MistralConfig(**small, sliding_window=4), MistralForCausalLM),
):
    model = fill(kind(config))
    found += train(model, lambda: model(input_ids=ids, labels=ids).loss)
    model.eval()
    words = model.generate(ids[:, :4], max_new_tokens=5, do_sample=False, pad_token_id=0)
    found += words.flatten().tolist()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = kind.from_pretrained(folder).eval()
    found.append(again(input_ids=ids).logits.sum().item())
    beams = again.generate(
        ids[:, :4], max_new_tokens=4, num_beams=3, do_sample=False, pad_token_id=0
    )
    found += beams.flatten().tolist()
whisper = fill(
    WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=40,
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            num_mel_bins=8,
            max_source_positions=20,
            max_target_positions=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            dropout=0.0,
        )
    )
)
sound = picture(2, 8, 40)
found += train(whisper, lambda: whisper(input_features=sound, labels=ids[:, :6]).loss)
say(*found)
