"""Everything that imports torch or transformers. Runs in a process of its own: `python -m demo.backend.run`."""
