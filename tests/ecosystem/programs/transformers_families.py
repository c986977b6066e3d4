"""One training step of many small architectures, each by its own configuration."""

import torch
from common import fill, picture, say, train
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForQuestionAnswering,
    BertForTokenClassification,
    BloomConfig,
    BloomForCausalLM,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForPreTraining,
    FalconConfig,
    FalconForCausalLM,
    GemmaConfig,
    GemmaForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

ids = torch.arange(16).reshape(2, 8) * 3 % 36 + 3
mask = torch.ones(2, 8, dtype=torch.long)
mask[1, 6:] = 0
basic = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
grouped = {
    **basic,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
found = []


def learn(model, **given):
    """Losses of two steps, and what the model says afterwards."""
    model = fill(model)
    found.extend(train(model, lambda: model(**given).loss, steps=2))


words = {"input_ids": ids, "attention_mask": mask}
for kind in (
    RobertaForMaskedLM(RobertaConfig(**basic, **quiet)),
    AlbertForMaskedLM(AlbertConfig(**basic, **quiet, embedding_size=8)),
    BertForTokenClassification(BertConfig(**basic, **quiet)),
    ElectraForPreTraining(ElectraConfig(**basic, **quiet, embedding_size=8)),
):
    labels = ids if "MaskedLM" in type(kind).__name__ else ids % 2
    learn(kind, **words, labels=labels)
ends = {"start_positions": torch.tensor([1, 2]), "end_positions": torch.tensor([3, 4])}
learn(BertForQuestionAnswering(BertConfig(**basic, **quiet)), **words, **ends)
learn(
    DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=32, dropout=0.0,
            attention_dropout=0.0, seq_classif_dropout=0.0, max_position_embeddings=32,
        )
    ),
    **words, labels=torch.tensor([0, 1]),
)  # fmt: skip
for kind in (
    GemmaForCausalLM(GemmaConfig(**grouped, head_dim=4)),
    Phi3ForCausalLM(Phi3Config(**grouped)),
    Qwen3ForCausalLM(Qwen3Config(**grouped, head_dim=4)),
    GPTNeoXForCausalLM(GPTNeoXConfig(**basic, hidden_dropout=0.0)),
    FalconForCausalLM(
        FalconConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4)
    ),
    BloomForCausalLM(
        BloomConfig(vocab_size=40, hidden_size=16, n_layer=2, n_head=4, hidden_dropout=0.0)
    ),
    OPTForCausalLM(
        OPTConfig(
            vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, ffn_dim=32,
            max_position_embeddings=32, dropout=0.0, word_embed_proj_dim=16,
        )
    ),
    MixtralForCausalLM(
        MixtralConfig(**grouped, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True)
    ),
):  # fmt: skip
    learn(kind, **words, labels=ids)
bart = BartForConditionalGeneration(
    BartConfig(
        vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, dropout=0.0,
        max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=2, forced_eos_token_id=2,
    )
)  # fmt: skip
learn(bart, **words, labels=ids)
bart.eval()
said = bart.generate(ids, attention_mask=mask, num_beams=3, max_new_tokens=5, early_stopping=True)
say(*found, *said.flatten().tolist(), picture(2).sum())
