"""What programs of many small transformers share: sizes, inputs, a few steps of training."""

import torch
from common import fill, picture, train

ids = torch.arange(16).reshape(2, 8) * 3 % 36 + 3
mask = torch.ones(2, 8, dtype=torch.long)
mask[1, 6:] = 0
WORDS = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
QUIET = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GROUPED = {
    **WORDS,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEQUENCES = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
}
pictures, labels_of_pictures = picture(2, 3, 32, 32), torch.tensor([0, 2])
PICTURES = {
    **SMALL,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 3,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def learn(model, steps=2, **given):
    """Losses of a few steps."""
    model = fill(model).train()
    return train(model, lambda: model(**given).loss, steps=steps)


def words_of(make, generates=True):
    """Losses of two steps of training, and what the model says afterwards."""
    torch.manual_seed(0)
    model = fill(make()).train()
    given = {"input_ids": ids, "attention_mask": mask, "labels": ids}
    found = train(model, lambda: model(**given).loss, steps=2)
    if generates:
        model.eval()
        with torch.no_grad():
            said = model.generate(ids[:1], max_new_tokens=5, do_sample=False, pad_token_id=0)
        found.extend(said.flatten().tolist())
    return found
