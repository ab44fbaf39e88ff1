"""The settings of the session behind `metaquorum lag watch`."""

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from lag.watch import stream


def test_a_stream_is_not_tuned_by_the_size_of_the_logs_at_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They grow for days."""
    asked: dict[str, Any] = {}

    def session(master: str, **options: Any) -> Any:
        asked.update(options)
        raise StopIteration

    monkeypatch.setattr(stream, "spark_session", session)
    watched = stream.WatchRequest(paths=("/nowhere",), every_ms=500)
    with pytest.raises(StopIteration):
        stream.watch(watched, "local[2]", lambda _: None, lambda: None, now_ms=lambda: 0)
    assert asked.get("input_bytes") is None
