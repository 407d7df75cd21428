"""What `make yarn` sends with `--py-files`, and what it reads there that `--archives` brings."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path


def price(k: int, noted: str, seconds: float) -> int:
    """Of one key. Each call leaves a file with the key, and the container that it was made in."""
    time.sleep(seconds)
    factor = int(Path("rates/factor").read_text())
    Path(f"{noted}/{k}-{os.environ['CONTAINER_ID']}-{uuid.uuid4().hex}").touch()
    return k * factor
