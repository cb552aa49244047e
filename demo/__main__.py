"""`python -m demo`: see `demo.cli.main`."""

import sys

from .cli.main import main

sys.exit(main())
