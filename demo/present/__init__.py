"""Results as words, pictures, charts and scripts. The page and the command line share them."""
