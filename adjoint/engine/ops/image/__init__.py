"""Operations over windows of images and volumes: convolution, pooling, resizing."""
