"""Many runs: sweeps over a grid of settings, on one or several machines, and searches for the best way."""
