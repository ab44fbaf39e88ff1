"""`metaquorum features`: output, requests, and usage errors."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from admin.cli.configs import described
from admin.cli.main import group
from admin.cli.options import show
from admin.client.admin_client import read_features, update_features
from admin.client.channels import Form
from admin.model import (
    FeatureInfo,
    FeaturesDescription,
)
from quorum.protocol.apis import ApiKey
from quorum.protocol.codec import error_code, response_schema
from statemachine.commands import UpgradeType
from tests.support.controllers import a_controller
from tests.support.kio_values import make_known, nested

NOBODY = ("--bootstrap-controller", "127.0.0.1:1", "--timeout", "50ms")
FOUND = FeaturesDescription(
    epoch=77,
    features=(
        FeatureInfo(name="group.version", supported=(0, 1), level=0),
        FeatureInfo(name="metadata.version", supported=(15, 29), level=21),
        FeatureInfo(name="new.version", supported=None, level=3),
    ),
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["features", *arguments])


def test_every_feature_is_shown_with_the_names_of_releases() -> None:
    assert described(FOUND).splitlines() == [
        "FEATURE           SUPPORTED                     IN FORCE",
        "group.version     0 to 1                        0",
        "metadata.version  15 (3.7-IV0) to 29 (4.2-IV1)  21 (3.9-IV0)",
        "new.version       unknown                       3",
    ]


def test_features_are_data_too(capsys: pytest.CaptureFixture[str]) -> None:
    show(FOUND, "json", described, asdict)
    data = json.loads(capsys.readouterr().out)
    assert data["epoch"] == 77
    assert data["features"][1] == {"name": "metadata.version", "supported": [15, 29], "level": 21}
    assert data["features"][2]["supported"] is None


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_the_answer_of_a_node_is_read_in_every_version(version: int) -> None:
    schema = response_schema(ApiKey.API_VERSIONS, version)
    fields: dict[str, Any] = {"error_code": error_code(0), "api_keys": ()}
    if version >= 3:
        supported = nested(schema, "SupportedFeatureKey")
        finalized = nested(schema, "FinalizedFeatureKey")
        fields |= {
            "supported_features": (
                make_known(supported, name="group.version", min_version=0, max_version=1),
            ),
            "finalized_features": (
                make_known(
                    finalized, name="metadata.version", max_version_level=29, min_version_level=29
                ),
            ),
            "finalized_features_epoch": 5,
        }
    found = read_features(make_known(schema, throttle_time=timedelta(0), **fields))
    if version < 3:
        assert found == FeaturesDescription(epoch=-1, features=())
        return
    assert found.epoch == 5
    assert [(each.name, each.supported, each.level) for each in found.features] == [
        ("group.version", (0, 1), 0),
        ("metadata.version", None, 29),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing option '--feature'"),
        (("--feature", "group.version"), "'group.version' is not name=level"),
        (("--feature", "=1"), "'=1' is not name=level"),
        (("--feature", "group.version="), "'group.version=' is not name=level"),
        (("--feature", "group.version=one"), "'one' is not a level of group.version: write a num"),
        (("--feature", "group.version=-1"), "'-1' is not a level of group.version"),
        (("--feature", "metadata.versoin=4.3"), "did you mean metadata.version?"),
        (("--feature", "quite.another=4.3"), "quite.another is not a feature; there are "),
        (("--feature", "metadata.version=5.0"), "'5.0' is no level of metadata.version: write a"),
        (("--feature", "a=1", "--feature", "a=2"), "a is given twice"),
        (("--feature", "a=1", "--downgrade", "--unsafe"), "--downgrade or --unsafe, not both"),
    ],
)
def test_an_upgrade_that_is_not_understood_asks_nobody(arguments: Sequence[str], said: str) -> None:
    done = run("upgrade", *arguments, *NOBODY)
    assert done.exit_code == 2
    assert said in done.stderr.splitlines()[-1]


async def test_a_downgrade_names_the_option_that_allows_it(tmp_path: Path) -> None:
    async with a_controller(tmp_path) as node:
        whom = ("--bootstrap-controller", str(node.address))
        lower = ("upgrade", "--feature", "metadata.version=20")
        done = await asyncio.to_thread(run, *lower, *whom)
    assert done.exit_code == 1
    assert done.stderr.endswith("; --downgrade allows a lower level if no metadata is lost\n")


@pytest.mark.parametrize("arguments", [("describe",), ("upgrade", "--feature", "a=1")])
def test_without_an_answer_it_is_said_who_was_asked(arguments: Sequence[str]) -> None:
    done = run(*arguments, *NOBODY)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no answer from 127.0.0.1:1 within 50 ms" in done.stderr


def filled(version: int, upgrade_type: UpgradeType, *, dry_run: bool) -> tuple[Any, Any]:
    """The request for one feature, and what is made of an answer without an error."""
    question = update_features({"a": 1}, upgrade_type=upgrade_type, dry_run=dry_run)
    request = question.fill(Form(ApiKey.UPDATE_FEATURES, version, timedelta(seconds=1)))
    schema = response_schema(ApiKey.UPDATE_FEATURES, version)
    answer = make_known(
        schema,
        throttle_time=timedelta(0),
        error_code=error_code(0),
        error_message=None,
        results=(),
    )
    return request, question.judge(answer)


@pytest.mark.parametrize("version", [1, 2])
def test_the_kind_of_change_is_said(version: int) -> None:
    for upgrade_type in tuple(UpgradeType)[1:]:
        request, verdict = filled(version, upgrade_type, dry_run=True)
        (update,) = request.feature_updates
        assert (update.feature, update.max_version_level) == ("a", 1)
        assert (update.upgrade_type, request.validate_only) == (upgrade_type.value, True)
        assert verdict.code == 0


def test_an_old_cluster_is_not_asked_for_what_it_would_take_for_something_else() -> None:
    request, verdict = filled(0, UpgradeType.SAFE_DOWNGRADE, dry_run=False)
    assert request.feature_updates[0].allow_downgrade
    assert verdict.code == 0
    for upgrade_type, dry_run in (
        (UpgradeType.UPGRADE, True),
        (UpgradeType.UNSAFE_DOWNGRADE, False),
    ):
        request, verdict = filled(0, upgrade_type, dry_run=dry_run)
        assert request.feature_updates == ()
        assert (verdict.code, verdict.message) == (
            35,
            "the cluster is too old for --dry-run and --unsafe",
        )
