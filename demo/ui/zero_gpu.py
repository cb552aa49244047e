"""The one function that holds a GPU on a ZeroGPU Space. Import it there only, before gradio and torch.

Importing it imports `spaces`, which the Space installs, and with it torch, whose CUDA calls `spaces` replaces in this
process. A Space without a decorated function is stopped at its start ("No @spaces.GPU function detected").

`spaces` waits for a GPU, forks this process, hands the GPU to the fork, and sends back what the function there yields.
The fork starts the usual worker as its child. When the fork ends, however it ends, the worker's lifeline ends it too.

Not covered: nobody has tried this on a ZeroGPU Space; see docs/space.md.
"""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

import spaces

from demo.core.result import Progress, RunResult
from demo.core.spec import BadInput, RunSpec
from demo.runs.process import WorkerDied
from demo.runs.runner import Runner

SECONDS = 120
"""What is asked for. `spaces` asks for half as much again on the half card of an RTX Pro 6000."""
LAST_SECONDS = 5
"""The run ends itself so long before, while it can still tell what it knows."""

Event = Progress | RunResult


@spaces.GPU(duration=SECONDS)
def _holding_a_gpu(spec: RunSpec, image: Path | None) -> Generator[Event | BadInput, None, None]:
    """The run, in the fork. Yields a refusal: of an exception only the name of its class would come back."""
    os.environ.pop("SPACES_ZERO_GPU", None)  # here the GPU is real, and CUDA_VISIBLE_DEVICES names it
    with contextlib.closing(Runner(None, timeout_seconds=SECONDS - LAST_SECONDS)) as runner:
        try:
            yield from runner.run(spec, image)
        except BadInput as refusal:
            yield refusal


def run(spec: RunSpec, image: Path | None) -> Generator[Event, None, None]:
    """The events of a run on a GPU that ZeroGPU lends. Blocks until there is one.

    Raises BadInput where none was to be had or the run is refused, and WorkerDied where the run ends without a result.
    """
    started = False
    try:
        with contextlib.closing(_holding_a_gpu(spec, image)) as events:
            for event in events:
                started = True
                if isinstance(event, BadInput):
                    raise event
                yield event
    except BadInput:
        raise
    except Exception as error:  # `spaces` raises classes of all kinds: gradio's Error, an assertion, a lost connection
        reason = str(getattr(error, "message", error)) or type(error).__name__
        if started:
            raise WorkerDied(reason) from error
        raise BadInput(
            f"The run on ZeroGPU's GPU did not begin: {reason.rstrip('.')}. Try later, or choose device cpu for this "
            "Space's own CPU."
        ) from error
