"""`python -m demo`: see `demo.cli.main`."""

import sys

from demo.cli.main import main

sys.exit(main())
