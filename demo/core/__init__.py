"""What every process knows: specs, results, the catalogue, statistics, images. Imports no other room."""
