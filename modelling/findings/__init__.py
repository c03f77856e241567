"""What can be said about a version: claims that hold together, items that bridge opinions, kinds of workers."""
