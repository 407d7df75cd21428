"""The safety net around a command that runs a pipeline, as the settings say."""

from __future__ import annotations

from rekindle.cli.gc import rules_of
from rekindle.config import Config
from rekindle.journal.stores import open_store
from rekindle.runtime.janitor.net import SafetyNet


def safety_net(config: Config, pipeline: str) -> SafetyNet:
    """To be entered before the run."""
    return SafetyNet(
        lambda: open_store(config.location, config.storage), pipeline, rules_of(config), is_on=config.is_swept
    )
