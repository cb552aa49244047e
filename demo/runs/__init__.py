"""What the app does with a run: starts its processes, watches and cancels them, and forecasts how long it takes."""
