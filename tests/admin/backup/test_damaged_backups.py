"""Stored backups that were damaged: each damage is found, and named."""

import random
from pathlib import Path

import pytest

from admin.backup.manifest import BackupDamaged, decode_manifest, encode_manifest
from admin.backup.run import Retention, expired
from admin.tools.doctor import backup_facts
from tests.admin.backup.stored_backups import TAKEN_MS, backed_up, command
from tests.admin.tools.old_controllers import CHECKPOINT, CHECKPOINT_END, old, rest
from tests.support.real_cluster import IN_TREE

FLIPS = 12


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A backup of a snapshot and the log behind it."""
    checkpoints = [IN_TREE / CHECKPOINT]
    log = rest(CHECKPOINT_END)
    source = old(tmp_path, 3, log=log, start=CHECKPOINT_END, checkpoints=checkpoints)
    backed_up(source, tmp_path / "to")
    return tmp_path / "to"


@pytest.mark.parametrize("suffix", ["*.checkpoint", "*.log"])
def test_a_flipped_bit_is_found_in_the_file_that_has_it(place: Path, suffix: str) -> None:
    (path,) = place.glob(suffix)
    sound = path.read_bytes()
    rng = random.Random(suffix)
    for _ in range(FLIPS):
        at = rng.randrange(len(sound))
        damaged = bytearray(sound)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        result = command("verify", place)
        assert result.exit_code == 1, at
        assert path.name in result.stderr
    path.write_bytes(sound)
    assert command("verify", place).exit_code == 0


@pytest.mark.parametrize("suffix", ["*.checkpoint", "*.log"])
def test_a_file_that_is_cut_or_gone_is_named(place: Path, suffix: str) -> None:
    (path,) = place.glob(suffix)
    path.write_bytes(path.read_bytes()[:-7])
    result = command("verify", place)
    assert result.exit_code == 1
    assert path.name in result.stderr
    path.unlink()
    result = command("verify", place)
    assert result.exit_code == 1
    assert path.name in result.stderr


def test_no_flipped_bit_of_a_manifest_goes_unnoticed(place: Path) -> None:
    (path,) = place.glob("*.json")
    sound = path.read_bytes()
    manifest = decode_manifest(sound, "it")
    assert encode_manifest(manifest) == sound
    rng = random.Random(5)
    for _ in range(300):
        damaged = bytearray(sound)
        damaged[rng.randrange(len(sound))] ^= 1 << rng.randrange(8)
        try:
            found = decode_manifest(bytes(damaged), "it")
        except BackupDamaged:
            continue
        assert found == manifest, "white space alone may differ"


@pytest.mark.parametrize("id_", ["99999999T999999.999Z", "99991231T235959.999Z"])
def test_a_file_whose_name_has_no_time_that_another_follows_is_no_manifest(
    place: Path, id_: str
) -> None:
    path = place / f"backup-{id_}.json"
    path.write_text("{}")
    assert id_ not in command("list", place).stdout
    source = old(place.parent / "2", 2)
    outcome = backed_up(source, place, now_ms=TAKEN_MS + 1, retention=Retention(count=1))
    assert not outcome.remarks
    assert path.exists()


def test_a_manifest_of_a_later_format_is_refused_by_its_number(place: Path) -> None:
    (path,) = place.glob("*.json")
    path.write_bytes(path.read_bytes().replace(b'"format": 1', b'"format": 2'))
    result = command("show", place)
    assert "its format is 2, this program reads 1" in result.stderr
    assert result.exit_code == 1


def test_while_a_manifest_is_damaged_nothing_is_removed_and_every_run_names_it(
    place: Path, tmp_path: Path
) -> None:
    (path,) = place.glob("*.json")
    path.write_text("{}")
    files = {each.name for each in place.iterdir()}
    source = old(tmp_path / "2", 2)
    for run in (1, 2, 3):
        now_ms = TAKEN_MS + run
        outcome = backed_up(source, place, now_ms=now_ms, retention=Retention(count=1))
        said = f"{place}: {path.name} cannot be used, and names files that are not known"
        assert any(each.startswith(said) for each in outcome.remarks)
    assert files < {each.name for each in place.iterdir()}
    facts = backup_facts(str(place), age_max_ms=1)
    assert (facts.newest_ms, facts.damaged) == (TAKEN_MS + 3, [path.name])
    path.unlink()
    last = backed_up(source, place, now_ms=TAKEN_MS + 4, retention=Retention(count=1))
    assert not last.remarks
    named = {last.manifest.name, *(each.name for each in last.manifest.files)}
    assert {each.name for each in place.iterdir()} == {".lock", *named}


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(), "abcd"),
        (Retention(count=2), "cd"),
        (Retention(count=9), "abcd"),
        (Retention(age_ms=2 * DAY_MS), "cd"),
        (Retention(age_ms=1), "d"),
        (Retention(count=3, age_ms=2 * DAY_MS), "cd"),
    ],
)
def test_backups_are_kept_by_count_and_age_and_the_newest_always(
    retention: Retention, kept: str
) -> None:
    taken = [(name, DAY_MS * day) for day, name in enumerate("abcd")]
    gone = expired(taken, retention, now_ms=4 * DAY_MS)
    assert [name for name, _ in taken if name not in gone] == list(kept)
