from common import fill, picture, say, train
from e3nn import o3

net = fill(o3.Linear("4x0e+2x1o", "2x0e+1x1o"))
x = picture(3, 10)
say(
    *train(net, lambda: net(x).square().mean()),
    o3.spherical_harmonics(2, picture(3, 3), normalize=True).abs().sum(),
)
