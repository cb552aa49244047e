"""The command line: `main` has the parser and the commands `list` and `page`, `history_command` also `script`."""
