"""What the app costs, and how far its figures can be trusted. Each file is a command: `python -m benchmarks.NAME`."""
