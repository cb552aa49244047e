"""Many runs: sweeps over a grid of settings, also on several machines, and searches for the best way to compile."""
