"""The question how large logs are (DescribeLogDirs, 35), and how its answer is read."""

from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Any

from admin.channels import Fill, Form


def named(wanted: Collection[tuple[str, int]]) -> Fill:
    """The logs of these partitions at the broker that is asked; each broker tells of its own."""

    def fill(form: Form) -> Any:
        return form.request(
            topics=tuple(
                form.part(
                    "DescribableLogDirTopic",
                    topic=topic,
                    partitions=tuple(number for _, number in found),
                )
                for topic, found in groupby(sorted(wanted), key=lambda each: each[0])
            )
        )

    return fill


def read_sizes(response: Any) -> Mapping[tuple[str, int], int]:
    """Bytes of each partition that the broker has; a log that will take another's place aside."""
    return {
        (topic.name, each.partition_index): each.partition_size
        for directory in response.results
        if int(directory.error_code) == 0
        for topic in directory.topics
        for each in topic.partitions
        if not each.is_future_key
    }
