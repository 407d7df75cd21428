"""`python -m verification NAME …`: one campaign, bench or check; without a name, all of them.

What tests and campaigns share is here, and neither imports the other: `support` (drivers, servers, signals, stand-ins),
`world` (the simulated world), and the modules below by their names. Nothing of it is in the wheel.
"""

from __future__ import annotations

import ast
import os
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def campaigns() -> dict[str, str]:
    """Each module that can be started, with the first sentence of what it says of itself."""
    files = [*HERE.glob("*.py"), *HERE.glob("*/__main__.py")]
    found = {}
    for file in sorted(files):
        text = file.read_text()
        if file.parent == HERE and (file.name.startswith("__") or "__main__" not in text):
            continue
        name = file.stem if file.parent == HERE else file.parent.name
        found[name] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return found


def main() -> None:
    if len(sys.argv) < 2:
        for name, does in campaigns().items():
            print(f"{name:20} {does}")
        sys.exit(2)
    name = sys.argv.pop(1)
    paths = [str(HERE.parent / "src"), str(HERE)]
    sys.path[:0] = paths
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, before] if before else paths)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
