"""Worth Compiling? A live answer to whether `torch.compile` is worth it for a vision model."""

import sys

if sys.platform == "win32":  # before anything imports fcntl
    sys.exit("Worth Compiling? runs on Linux and macOS. On Windows use WSL: https://learn.microsoft.com/windows/wsl.")
