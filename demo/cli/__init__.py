"""The command line. `main.py` has the parser and the commands `list` and `page`.

`history_command.py` has the commands `history` and `script`. Each other command has a file of its own.
"""
