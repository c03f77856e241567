"""Storage of what training computes and needs again: arrays of snapshots, labels of workers."""
