"""`python -m demo`: see `demo.cli.run`."""

import sys

from demo.cli.run import main

sys.exit(main())
