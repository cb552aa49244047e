"""One run from outside: start its process, watch it, cancel it, estimate how long it takes."""
