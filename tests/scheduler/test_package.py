"""The package: its names, imported when first used."""

from __future__ import annotations

import pytest

import scheduler


@pytest.mark.parametrize("name", scheduler.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(scheduler, name) is not None
    assert name in dir(scheduler)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = scheduler.Nothing
