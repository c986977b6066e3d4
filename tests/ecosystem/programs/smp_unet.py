import segmentation_models_pytorch as smp
from common import fill, picture, say, train

net = fill(smp.Unet("resnet18", encoder_weights=None, classes=1)).eval()
x, y = picture(1, 3, 32, 32), (picture(1, 1, 32, 32) > 0).float()
say(*train(net, lambda: smp.losses.DiceLoss("binary")(net(x), y), steps=2))
