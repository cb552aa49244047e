"""Development tools: nothing here is imported by the app."""
