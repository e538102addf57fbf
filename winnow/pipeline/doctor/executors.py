"""Judges what Spark's executors answered: what they lack, and the line that mends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlparse

from winnow.config.settings import Settings
from winnow.errors import ServiceError
from winnow.files import object_store
from winnow.files.storage import is_local
from winnow.pipeline.doctor.check_runner import CheckResult, build_failure, build_ok, build_warning

PYTHON_VARIABLE = "WINNOW_SPARK__CONF__spark__pyspark__python"
"""The setting for the program that executors start as their Python."""

_DISTRIBUTIONS = {"winnow": "winnow-log", "hdfs_native": "hdfs-native"}
_EXACT = ("winnow", "pyspark")
"""Modules that must have the driver's version: both ends speak with one another. Others must only be there."""


def judge_executors(event: Mapping[str, Any], settings: Settings) -> CheckResult:
    """Return the finding for the event of ``jobs/doctor.py``; the first of what is wrong, since it hides the rest."""
    broken = event.get("broken")
    if broken:
        return _judge_broken(broken)
    executors: Sequence[Mapping[str, Any]] = event["executors"]
    expected: Mapping[str, str | None] = event["expected"]
    here = ".".join(map(str, sys.version_info[:2]))
    others = [each for each in executors if each["python"] != here]
    if others:
        return _build_python_failure(here, sorted({each["python"] for each in others}), _list_hosts(others))
    for each in executors:
        lacking = [name for name in expected if each["versions"].get(name) is None]
        if lacking:
            return _build_package_failure(
                "lack", lacking, [f"{_get_distribution(name)}" for name in lacking], each, expected
            )
    for each in executors:
        differing = [name for name in _EXACT if each["versions"].get(name) != expected.get(name)]
        if differing:
            return _build_version_failure(differing, each, expected)
    for each in executors:
        for uri, reason in each["unreachable"].items():
            return build_failure(
                "spark",
                f"The executors on {each['host']} cannot use {uri}: {reason.rstrip('.')}.",
                _describe_access(uri, each["host"]),
                ServiceError.exit_code,
            )
    ran = f"Spark {event['spark']} ran {event['tasks']} tasks on {settings.spark.master}"
    differing = sorted(
        f"{_get_distribution(name)} {each['versions'][name]} for {expected[name]}"
        for each in executors
        for name in expected
        if each["versions"][name] != expected[name]
    )
    if differing:
        return build_warning(
            "spark",
            f"{ran}. The executors' packages differ from the driver's: {', '.join(dict.fromkeys(differing))}.",
            _format_install([name for name in expected if name not in _EXACT], executors[0], expected),
        )
    return build_ok("spark", f"{ran}.")


def _judge_broken(broken: Mapping[str, Any]) -> CheckResult:
    here = ".".join(map(str, sys.version_info[:2]))
    if "pythons" in broken:
        return _build_python_failure(here, list(broken["pythons"][:1]), "")
    if "no_python" in broken:
        return build_failure(
            "spark",
            f"The executors have no {broken['no_python']}, which they are told to start as their Python.",
            f"Install Python {here} with winnow-log there, and name it: export {PYTHON_VARIABLE}=/path/to/python",
        )
    return build_failure(
        "spark",
        f"The executors' Python lacks the module {broken['no_module']}, so no task began.",
        f"Install winnow-log where the executors run, or name a Python that has it: export {PYTHON_VARIABLE}=...",
    )


def _build_python_failure(here: str, theirs: Sequence[str], hosts: str) -> CheckResult:
    where = f" on {hosts}" if hosts else ""
    return build_failure(
        "spark",
        f"The driver has Python {here}, the executors{where} have {' and '.join(theirs) or 'another'}.",
        f"Name a Python {here} that is there: export {PYTHON_VARIABLE}=/path/to/python{here}",
    )


def _build_package_failure(
    verb: str, modules: Sequence[str], told: Sequence[str], each: Mapping[str, Any], expected: Mapping[str, str | None]
) -> CheckResult:
    return build_failure(
        "spark",
        f"The executors on {each['host']} {verb} {', '.join(told)}.",
        f"On {each['host']}: {_format_install(modules, each, expected)}",
    )


def _build_version_failure(
    modules: Sequence[str], each: Mapping[str, Any], expected: Mapping[str, str | None]
) -> CheckResult:
    """Build the failure for other versions than the driver's. The cluster's Spark stays: others use it, too."""
    host, versions = each["host"], each["versions"]
    told = [f"{_get_distribution(name)} {versions[name]} for {expected[name]}" for name in modules]
    fixes = []
    if "pyspark" in modules:
        fixes.append(
            f"Give the driver the cluster's Spark: {sys.executable} -m pip install pyspark=={versions['pyspark']}"
        )
    if others := [name for name in modules if name != "pyspark"]:
        fixes.append(f"On {host}: {_format_install(others, each, expected)}")
    return build_failure("spark", f"The executors on {host} have {', '.join(told)}.", "; ".join(fixes))


def _format_install(modules: Sequence[str], each: Mapping[str, Any], expected: Mapping[str, str | None]) -> str:
    # Spark brings its own PySpark to the executors of most clusters; an unknown version is the newest that fits.
    wanted = [f"{_get_distribution(name)}=={expected[name]}" for name in modules if expected.get(name)]
    return f"{each['executable']} -m pip install {' '.join(wanted)}"


def _get_distribution(module: str) -> str:
    return _DISTRIBUTIONS.get(module, module)


def _list_hosts(executors: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({each["host"] for each in executors}))


def _describe_access(uri: str, host: str) -> str:
    """Say how executors get access to ``uri``."""
    scheme = urlparse(uri).scheme
    if is_local(uri):
        return (
            f"Mount that folder on {host} at the same place, or point WINNOW_WAREHOUSE and WINNOW_STAGING at a store "
            "that every machine reaches (s3://, gs://, hdfs://)"
        )
    if scheme in object_store.S3_SCHEMES and object_store.is_vending(os.environ):
        return (
            "Give the machines of the executors the driver's variables WINNOW_VENDED_CREDENTIALS, WINNOW_WAREHOUSE, "
            "WINNOW_NAMESPACE and WINNOW_CATALOG__*, from their secrets: Spark's tasks ask the catalog themselves"
        )
    if scheme in object_store.S3_SCHEMES:
        return (
            "Give the executors an instance role, or the variables in their environment: "
            "export WINNOW_SPARK__CONF__spark__executorEnv__AWS_ENDPOINT_URL_S3=... (and AWS_REGION); keys in a "
            "file that AWS_SHARED_CREDENTIALS_FILE names there"
        )
    if scheme in object_store.HADOOP_SCHEMES:
        return (
            "Give the executors the Hadoop configuration: "
            "export WINNOW_SPARK__CONF__spark__executorEnv__HADOOP_CONF_DIR=/etc/hadoop/conf"
        )
    return f"Give the executors on {host} the same credentials for {scheme}:// as the driver has, in their environment"
