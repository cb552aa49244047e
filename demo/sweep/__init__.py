"""Many runs: sweeps over a grid of settings, on one or several machines, and the search for the best way to run."""
