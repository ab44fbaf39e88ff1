"""The questions about features as Kafka's requests, and their answers as our values.

As `admin/client/topics.py`: each function makes a `Question` or reads an answer; nothing here asks.
"""

from collections.abc import Mapping
from typing import Any, Final

from admin.client.asking import Question, Verdict, whole
from admin.client.channels import Form
from admin.model import FeatureInfo, FeaturesDescription
from quorum.protocol.apis import ApiKey

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
"""The upgrade types (KIP-778)."""

_KINDS_FROM: Final = 1
"""The first UpdateFeatures that tells the downgrades apart and can only try."""

_UNSUPPORTED_VERSION: Final = 35
_TOO_OLD: Final = "the cluster is too old for --dry-run and --unsafe"

CLIENT_NAME: Final = "metaquorum"
CLIENT_VERSION: Final = "1"


def describe_features() -> Question:
    """Describe the supported and the finalized levels of features (KIP-584)."""

    def fill(form: Form) -> Any:
        return form.request(
            client_software_name=CLIENT_NAME, client_software_version=CLIENT_VERSION
        )

    return Question(
        api_key=ApiKey.API_VERSIONS, fill=fill, failing="the features cannot be described"
    )


def read_features(response: Any) -> FeaturesDescription:
    """The features that the node knows or that are in force, by name."""
    supported = {each.name: each for each in getattr(response, "supported_features", ())}
    finalized = {
        each.name: each.max_version_level for each in getattr(response, "finalized_features", ())
    }
    return FeaturesDescription(
        epoch=getattr(response, "finalized_features_epoch", -1),
        features=tuple(
            FeatureInfo(
                name=name,
                supported=(
                    (supported[name].min_version, supported[name].max_version)
                    if name in supported
                    else None
                ),
                level=finalized.get(name, 0),
            )
            for name in sorted({*supported, *finalized})
        ),
    )


def update_features(levels: Mapping[str, int], *, upgrade_type: int, dry_run: bool) -> Question:
    """Features shall be in force at these levels, all or none (KIP-584)."""
    too_old = False

    def fill(form: Form) -> Any:
        nonlocal too_old
        too_old = form.version < _KINDS_FROM and (dry_run or upgrade_type == UNSAFE_DOWNGRADE)
        updates = tuple(
            form.part(
                "FeatureUpdateKey",
                feature=name,
                max_version_level=level,
                allow_downgrade=upgrade_type != UPGRADE,
                upgrade_type=upgrade_type,
            )
            for name, level in sorted(levels.items())
            # Without the field it would be carried out as what it is not: so nothing is asked for.
            if not too_old
        )
        return form.request(feature_updates=updates, validate_only=dry_run, timeout=form.patience)

    def judge(response: Any) -> Verdict:
        return Verdict(_UNSUPPORTED_VERSION, _TOO_OLD) if too_old else whole(response)

    return Question(
        api_key=ApiKey.UPDATE_FEATURES,
        fill=fill,
        judge=judge,
        failing="the features cannot be updated",
    )
