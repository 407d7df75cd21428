"""First light on the stage: its driver, its user code, its orders and answers."""

from __future__ import annotations

from pathlib import Path

import stage as parts
from first_light.driver import Answer, Order

HERE = Path(__file__).parent
LIGHT = parts.Play(HERE / "driver.py", HERE / "user_code.py", Order, Answer)
Stage = parts.Stage[Order, Answer]
Session = parts.Session[Order, Answer]
