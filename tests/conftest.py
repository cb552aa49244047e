"""Before any test."""

import signal

# A shell starts what it puts into the background with SIGINT ignored, and every child inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
