"""whisper, encodec, nnAudio, rotary and local attention, wavelets: layers of sound and sequence."""

import numpy as np
import torch
import whisper
from common import fill, picture, say, train
from encodec.modules import SEANetDecoder, SEANetEncoder
from encodec.quantization import ResidualVectorQuantizer
from local_attention import LocalAttention
from nnAudio.features import CQT1992v2, MelSpectrogram, STFT
from pytorch_wavelets import DWTForward, DWTInverse
from rotary_embedding_torch import RotaryEmbedding
from torchcrf import CRF
from whisper.model import ModelDimensions, Whisper

found = []
sound = picture(2, 800)
model = fill(Whisper(ModelDimensions(8, 20, 16, 2, 1, 51865, 12, 16, 2, 1))).eval()
mel, ids = picture(1, 8, 40), torch.tensor([[1, 5, 9]])
found.append(model(mel, ids).std())
found += [
    whisper.log_mel_spectrogram(torch.sin(torch.arange(1600) * 0.2)).sum(),
    whisper.pad_or_trim(np.ones(10)).sum(),
]
encoder = fill(
    SEANetEncoder(
        channels=1,
        dimension=8,
        n_filters=4,
        ratios=[4, 2],
        n_residual_layers=1,
        lstm=1,
        norm="none",
    )
)
decoder = fill(
    SEANetDecoder(
        channels=1,
        dimension=8,
        n_filters=4,
        ratios=[4, 2],
        n_residual_layers=1,
        lstm=1,
        norm="none",
    )
)
both = torch.nn.ModuleList([encoder, decoder])
found += train(
    both, lambda: (decoder(encoder(sound[:, None])) - sound[:, None]).abs().mean(), steps=2
)
codes = ResidualVectorQuantizer(dimension=8, n_q=2, bins=4).eval()
found += [*codes(encoder(sound[:, None]), 75, 1.0).codes.shape]
for spectrum in (
    STFT(n_fft=64, hop_length=16, output_format="Magnitude", verbose=False), MelSpectrogram(sr=800, n_fft=64, n_mels=8, hop_length=16, verbose=False),
    CQT1992v2(sr=800, fmin=50, n_bins=12, hop_length=64, verbose=False),
):  # fmt: skip
    found.append(spectrum(sound).sum())
down, up = DWTForward(J=2, wave="db2", mode="symmetric"), DWTInverse(wave="db2", mode="symmetric")
low, high = down(picture(1, 2, 16, 16))
found += [low.sum(), sum(h.abs().sum() for h in high), up((low, high)).sum()]
attend = LocalAttention(dim=8, window_size=4, causal=True, look_backward=1)
q = picture(2, 2, 16, 8)
found.append(attend(q, q.cos(), q).sum())
rotate = RotaryEmbedding(dim=8)
found.append(
    rotate.rotate_queries_or_keys(q).square().mean() + rotate.rotate_queries_or_keys(q).sum()
)
crf = fill(CRF(4, batch_first=True))
scores, tags = picture(2, 6, 4), torch.arange(12).reshape(2, 6) % 4
mask = torch.ones(2, 6, dtype=torch.bool)
mask[1, 4:] = False
found += train(crf, lambda: -crf(scores, tags, mask), steps=2)
found += [t for row in crf.decode(scores, mask) for t in row]
say(*found)
