"""The command line: `main` has the parser and the commands `list` and `page`. Each other command has a file."""
