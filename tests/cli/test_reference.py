"""The reference pages say what the code says. `make reference` writes them."""

from __future__ import annotations

import pytest

from reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "next: make reference"
