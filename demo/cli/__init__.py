"""The command line: `main` has the parser, and each command has a file."""
