"""What `make yarn` sends with `--py-files`, and what it reads there that `--archives` brings."""

from __future__ import annotations

import time
import uuid
from pathlib import Path


def price(k: int, noted: str, seconds: float) -> int:
    """Of one key. Each call leaves a file with the key, and the container that it was made in: by its folder, since a
    step that asks for the variable CONTAINER_ID is another one in each attempt, and nothing of it would be kept."""
    time.sleep(seconds)
    factor = int(Path("rates/factor").read_text())
    Path(f"{noted}/{k}-{Path.cwd().name}-{uuid.uuid4().hex}").touch()
    return k * factor
