import importlib
import os
import platform

import torch
import transformers
from torch.export.pt2_archive._package import AOTICompiledModel

loader, package = torch._C._aoti.AOTIModelPackageLoader, fill("package")
built = loader.load_metadata_from_package(package, "model")
here = {"torch": torch.__version__, "transformers": transformers.__version__}
here["processor"] = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
if here != {name: built.get(name) for name in here}:
    raise SystemExit(f"{package} was built for {built}, and this is {here}: build it here.")
importlib.import_module(built["outputs"])  # the class of what the model returns
os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers inputs of another size or dtype with wrong numbers
model = AOTICompiledModel(loader(package, "model", False, 1, -1))
