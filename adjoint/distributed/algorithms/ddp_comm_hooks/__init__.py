"""What DistributedDataParallel can do with buckets of gradients."""
