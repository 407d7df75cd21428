"""All programs of the corpus."""

from __future__ import annotations

from identity_corpus.of_code import BY_NAME, CLASSES, FUNCTIONS
from identity_corpus.of_nothing import SAME
from identity_corpus.of_plans import FRAMES, PLANS, VALUES

PROGRAMS = [*FUNCTIONS, *BY_NAME, *CLASSES, *VALUES, *PLANS, *FRAMES, *SAME]
