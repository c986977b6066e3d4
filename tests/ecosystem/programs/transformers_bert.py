import torch
from common import fill, say, train
from transformers import BertConfig, BertForSequenceClassification

config = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
model = fill(BertForSequenceClassification(config))
ids, labels = torch.arange(24).reshape(3, 8) % 50, torch.tensor([0, 1, 0])
say(*train(model, lambda: model(input_ids=ids, labels=labels).loss))
