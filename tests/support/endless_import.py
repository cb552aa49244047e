"""A module whose imports never end, as torch's take seconds. Started in the place of a backend module."""

import time

time.sleep(600)
