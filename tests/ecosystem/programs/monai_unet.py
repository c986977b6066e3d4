from common import fill, picture, say, train
from monai.losses import DiceLoss
from monai.networks.nets import UNet

net = fill(UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,)))
x, y = picture(1, 1, 8, 8), (picture(1, 1, 8, 8) > 0).float()
say(*train(net, lambda: DiceLoss(to_onehot_y=True, softmax=True)(net(x), y)))
