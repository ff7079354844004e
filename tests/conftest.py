"""How hard hypothesis tries: `HYPOTHESIS_PROFILE=thorough` draws ten times as many examples."""

from __future__ import annotations

import os

from hypothesis import settings

EXAMPLES = settings.get_profile("default").max_examples

settings.register_profile("quick", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=10 * EXAMPLES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
