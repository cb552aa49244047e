"""`python -m demo`: see `demo.cli.main`."""

import sys

from demo.core.files import memory_told

with memory_told():
    from demo.cli.main import main

    sys.exit(main())
