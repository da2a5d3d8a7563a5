"""Unlike the core: a module is written to a folder, as a package that needs no graph."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import os

    from ...code import PythonCode

MODULE = """from pathlib import Path

{imports}

FOLDER = Path(__file__).parent
# what the code below calls by these names
globals().update(torch.load(FOLDER / "globals.pt", weights_only=False))

{code}

class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        vars(self).update(torch.load(FOLDER / "state.pt", weights_only=False))

    forward = forward
"""


def write_folder(
    folder: str | os.PathLike[str], class_name: str, generated: PythonCode, state: dict[str, Any]
) -> None:
    """Write a package from which the class of a module can be imported.

    Args:
        folder: Where to write it.
        class_name: The name of the class.
        generated: The code of ``forward``.
        state: What a module of the class has as its attributes.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    modules = {
        name: value.__name__
        for name, value in generated.globals.items()
        if isinstance(value, ModuleType)
    }
    values = {name: value for name, value in generated.globals.items() if name not in modules}
    torch.save(values, folder / "globals.pt")
    torch.save(state, folder / "state.pt")
    imports = "\n".join(f"import {module} as {name}" for name, module in modules.items())
    text = MODULE.format(imports=imports, code=generated.src.strip(), name=class_name)
    (folder / "module.py").write_text(text, encoding="utf-8")
    (folder / "__init__.py").write_text(f"from .module import {class_name}\n", encoding="utf-8")
