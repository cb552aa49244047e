"""Development tools. The app imports nothing from this folder."""
