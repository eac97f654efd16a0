"""Puts back the objects of a versioned bucket that were deleted since a moment: python deploy/aws/put_back.py --help.

A restore of the catalog names files that maintenance has deleted since. Each deleted object whose newest version still
exists is copied over its own delete marker, so that nothing is removed and the command can be repeated.
"""

import argparse
import datetime as dt
import sys
from collections.abc import Iterator
from typing import Any

import boto3


def deleted(
    s3: Any,  # noqa: ANN401 - boto3 has no types
    bucket: str,
    prefix: str,
    since: dt.datetime,
) -> Iterator[tuple[str, str | None]]:
    """The keys that were deleted since a moment, each with its newest version, or None if that has expired."""
    markers: set[str] = set()
    newest: dict[str, tuple[dt.datetime, str]] = {}
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        markers |= {m["Key"] for m in page.get("DeleteMarkers", []) if m["IsLatest"] and m["LastModified"] >= since}
        for version in page.get("Versions", []):
            found = (version["LastModified"], version["VersionId"])
            newest[version["Key"]] = max(newest.get(version["Key"], found), found)
    for key in sorted(markers):
        yield key, newest[key][1] if key in newest else None


def put_back(
    s3: Any,  # noqa: ANN401
    bucket: str,
    prefix: str,
    since: dt.datetime,
) -> tuple[int, list[str]]:
    """Copy each deleted object to its key.

    Args:
        s3: a client of boto3 that may list versions, read them and write.
        bucket: with versions.
        prefix: of the keys.
        since: the moment of the catalog's copy, with a time zone.

    Returns:
        The number of copied objects, and the keys without a version.
    """
    copied, lost = 0, []
    for key, version in deleted(s3, bucket, prefix, since):
        if version is None:
            lost.append(key)
            continue
        s3.copy({"Bucket": bucket, "Key": key, "VersionId": version}, bucket, key)
        copied += 1
    return copied, lost


def moment(text: str) -> dt.datetime:
    """A moment of ISO 8601, which must have a time zone."""
    found = dt.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text} has no time zone: write Z or an offset at its end")
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Put back what was deleted in a versioned bucket since a moment.")
    parser.add_argument("bucket")
    parser.add_argument("prefix", help="of the keys, such as tables/")
    parser.add_argument(
        "--since", type=moment, required=True, help="the moment of the catalog's copy: 2026-11-20T03:00Z"
    )
    given = parser.parse_args()
    copied, lost = put_back(boto3.client("s3"), given.bucket, given.prefix, given.since)
    sys.stdout.write(f"{copied} objects put back\n")
    if lost:
        parser.exit(1, "\n".join([f"{len(lost)} have no version any more:", *lost, ""]))


if __name__ == "__main__":
    main()
