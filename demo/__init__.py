"""Worth Compiling? A live answer to whether `torch.compile` is worth it for a vision model."""
