"""What all other folders build on: settings of runs, results, the catalogue of checkpoints, statistics, images."""
