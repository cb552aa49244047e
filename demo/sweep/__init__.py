"""Many runs: grids, the search for the fastest setting, several machines."""
