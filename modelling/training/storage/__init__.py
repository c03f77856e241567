"""Storage of training results that are needed again: snapshots' arrays and workers' labels."""
