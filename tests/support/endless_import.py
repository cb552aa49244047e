"""A worker stuck in its imports for ten minutes. Tests start this module in place of a backend module."""

import time

time.sleep(600)
