"""Java, Maven and Kafka's jars: found, downloaded, or missing with a reason."""

import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from admin.tools.kafka_runtime import (
    RELEASES,
    TOOLS,
    Unavailable,
    fetch,
    find_java,
    find_maven,
    jar_folder,
)

# It copies no jars, but it takes the same arguments and says what it was asked for.
BRINGS = """
for each in "$@"; do case "$each" in
  -DoutputDirectory=*) folder="${{each#-DoutputDirectory=}}";;
  --file=*) pom="${{each#--file=}}";;
esac; done
mkdir "$folder" && cp "$pom" "$folder/asked.xml" && echo once >> {count}
"""


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def refusal(ask: Callable[[], object]) -> str:
    with pytest.raises(Unavailable) as raised:
        ask()
    return str(raised.value)


@pytest.mark.parametrize(
    "said", ['openjdk version "17.0.15" 2025-04-15', 'java version "21"', 'openjdk version "26-ea"']
)
def test_java_is_found_on_the_path_or_by_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    java = program(tmp_path / "bin", "java", f"echo '{said}' >&2")
    assert find_java() == java
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == java


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11"),
        ("echo 'java version \"1.8.0_402\"' >&2", "is Java 8"),
        ("exit 1", "cannot be run"),
        ("echo nonsense", "cannot be run"),
    ],
)
def test_a_java_that_is_too_old_or_broken_is_named(tmp_path: Path, script: str, shown: str) -> None:
    java = program(tmp_path / "bin", "java", script)
    said = refusal(find_java)
    assert said.startswith(f"{java} {shown}: install Java 17 or newer")
    assert "the embedded brokers need neither Java nor Maven" in said


def test_without_java_or_maven_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(find_java).startswith("there is no java: install Java 17")
    assert "install Maven 3.6 or newer" in refusal(find_maven)
    monkeypatch.setenv("JAVA_HOME", "/x")
    assert refusal(find_java).startswith("JAVA_HOME is /x, and has no bin/java: install Java 17")


@pytest.mark.parametrize("version", RELEASES)
def test_jars_are_brought_once_and_found_from_then_on(tmp_path: Path, version: str) -> None:
    count = tmp_path / "count"
    program(tmp_path / "bin", "mvn", BRINGS.format(count=count))
    said: list[str] = []
    assert not jar_folder(version).exists()
    folder = fetch(version, said.append)
    assert fetch(version, said.append) == folder
    assert jar_folder(version) == folder
    assert folder == tmp_path / "cache" / "metaquorum" / "kafka" / version
    assert f"<artifactId>kafka_2.13</artifactId><version>{version}<" in (
        (folder / "asked.xml").read_text()
    )
    assert count.read_text() == "once\n"
    assert [f"Apache Kafka {version} with Maven, once" in each for each in said] == [True]


def test_a_second_process_waits_for_the_download_and_finds_the_jars(tmp_path: Path) -> None:
    count = tmp_path / "count"
    program(tmp_path / "bin", "mvn", BRINGS.format(count=count))
    found: list[Path] = []

    def bring() -> None:
        found.append(fetch("4.2.0", lambda _: None))

    threads = [threading.Thread(target=bring) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert count.read_text() == "once\n"


def test_jars_that_maven_did_not_complete_do_not_count(tmp_path: Path) -> None:
    script = BRINGS.format(count=tmp_path / "count") + "echo 'no such host' >&2; exit 1"
    program(tmp_path / "bin", "mvn", script)
    said = refusal(lambda: fetch("4.2.0", lambda _: None))
    assert said == (
        "Maven could not fetch Kafka 4.2.0; is its repository reached? It said: no such host"
    )
    assert not jar_folder("4.2.0").exists()
    assert [each.name for each in (tmp_path / "cache/metaquorum/kafka").iterdir()] == [
        ".4.2.0.lock"
    ]


def test_a_release_that_was_never_tried_is_refused(tmp_path: Path) -> None:
    said = refusal(lambda: fetch("2.8.0", lambda _: None))
    assert said == "Kafka 2.8.0 is not among the tested releases, which are 3.9.1, 4.2.0 and 4.3.1"


def test_a_release_may_be_tested_as_tools_and_not_as_brokers(tmp_path: Path) -> None:
    program(tmp_path / "bin", "mvn", BRINGS.format(count=tmp_path / "count"))
    assert set(RELEASES) < set(TOOLS)
    assert "is not among the tested releases" in refusal(lambda: fetch("4.1.1", lambda _: None))
    assert fetch("4.1.1", lambda _: None, TOOLS) == jar_folder("4.1.1")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    program(tmp_path / "bin", "mvn", "exit 0")
    said = refusal(lambda: fetch("4.2.0", lambda _: None))
    assert "XDG_CACHE_HOME" in said
    assert str(tmp_path / "cache") in said
