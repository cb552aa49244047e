"""One run, seen from the app: starts its process, watches it, cancels it, estimates how long it takes."""
