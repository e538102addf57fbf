"""Where the tokens of SASL's OAUTHBEARER come from if the client library cannot get them itself.

A property says it, ``winnow.oauth.callback``, so that it travels to other machines like every other property; the
credentials do not: each process takes those of its own environment.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from winnow.errors import ConfigurationError, WinnowError

CALLBACK: Final = "winnow.oauth.callback"
"""``aws-msk-iam``, or ``MODULE:FUNCTION`` for a function of the user's own."""
AWS_MSK_IAM: Final = "aws-msk-iam"
AWS_REGION: Final = "winnow.aws.region"
AWS_PROFILE: Final = "winnow.aws.profile"
AWS_ROLE: Final = "winnow.aws.role.arn"
AWS_ROLE_SESSION: Final = "winnow.aws.role.session.name"
OWN_NAMES: Final = (CALLBACK, AWS_REGION, AWS_PROFILE, AWS_ROLE, AWS_ROLE_SESSION)
"""Properties that only Winnow knows."""

FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_REGION_OF_HOST: Final = re.compile(r"\.(?:kafka|kafka-serverless)\.([a-z]{2}(?:-[a-z]+)+-\d)\.(?:amazonaws|api\.aws)")
_SPARE_S: Final = 60.0
"""A token that ends sooner is not used again."""
_NOTHING: Final = "Nothing was read."

Token = tuple[Any, ...]
"""The token, its end in seconds since 1970, and perhaps principal and extensions, as the client library takes it."""


class TokenSource:
    """Gets tokens, and keeps the newest as long as it is good."""

    def __init__(self, get_token: Callable[[str], Token], described: str, configuration: str) -> None:
        self._get_token, self._described, self._configuration = get_token, described, configuration
        self._newest: Token | None = None

    def __call__(self, configuration: str) -> Token:
        """Return a token; the client library calls it. ``configuration``: ``sasl.oauthbearer.config``.

        Raises:
            ConfigurationError: there is none, and why.
        """
        newest, self._newest = self._newest, None
        if newest is not None and newest[1] > time.time() + _SPARE_S:
            return newest
        return self._ask(configuration)

    def fetch(self) -> None:
        """Get the first token, so that what is wrong is said before a client waits for it in vain.

        Raises:
            ConfigurationError: as above.
        """
        self._newest = self._ask(self._configuration)

    def _ask(self, configuration: str) -> Token:
        try:
            token, ends_s, *more = self._get_token(configuration)
            return (str(token), float(ends_s), *more)
        except WinnowError:
            raise
        except Exception as problem:
            # Its text may have credentials in it.
            raise ConfigurationError(
                f"{self._described} gave no token for Kafka ({type(problem).__name__}).",
                left=_NOTHING,
                next="It must return a tuple: the token, and when it ends in seconds since 1970.",
            ) from problem


def make_token_source(properties: Mapping[str, str], bootstrap_servers: str) -> TokenSource | None:
    """Make the source of tokens that ``properties`` ask for; None: the client library needs none.

    Raises:
        ConfigurationError: what it needs is not installed, or not said.
    """
    chosen = properties.get(CALLBACK)
    if chosen is None:
        return None
    configuration = properties.get("sasl.oauthbearer.config", "")
    if chosen == AWS_MSK_IAM:
        return TokenSource(_find_aws_signer(properties, bootstrap_servers), "The signer of AWS MSK", configuration)
    return TokenSource(_find_function(chosen), f"{CALLBACK}={chosen}", configuration)


def _find_function(chosen: str) -> Callable[[str], Token]:
    module, _, name = chosen.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        function = None
    if not callable(function):
        raise ConfigurationError(
            f"{CALLBACK}={chosen}: there is no such function.",
            left=_NOTHING,
            next="Its module must be installed here and on Spark's executors, or its folder be in PYTHONPATH.",
        )
    found: Callable[[str], Token] = function
    return found


def _find_aws_signer(properties: Mapping[str, str], bootstrap_servers: str) -> Callable[[str], Token]:
    region = properties.get(AWS_REGION) or _find_region(bootstrap_servers)
    if region is None:
        raise ConfigurationError(
            "The brokers' names tell no region of AWS.",
            left=_NOTHING,
            next=f"Write {AWS_REGION}=REGION into the client properties, or set AWS_REGION.",
        )
    try:
        signer: Any = importlib.import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError:
        raise ConfigurationError(
            "The signer of AWS MSK's tokens is not installed: pip install 'winnow-log[msk]', here and on Spark's "
            "executors.",
            left=_NOTHING,
        ) from None
    profile, role = properties.get(AWS_PROFILE), properties.get(AWS_ROLE)

    def sign(configuration: str) -> Token:
        if role is not None:
            token, ends_ms = signer.generate_auth_token_from_role_arn(
                region, role, properties.get(AWS_ROLE_SESSION, "winnow")
            )
        elif profile is not None:
            token, ends_ms = signer.generate_auth_token_from_profile(region, profile)
        else:
            token, ends_ms = _sign_by_environment(signer, region)
        return token, ends_ms / 1000

    return sign


def _sign_by_environment(signer: Any, region: str) -> tuple[str, int]:
    try:
        signed: tuple[str, int] = signer.generate_auth_token(region)
    except AttributeError:  # how the signer says that it found none
        raise ConfigurationError(
            "There are no credentials of AWS for Kafka's tokens.",
            left=_NOTHING,
            next=(
                "They are looked for where AWS's tools do: in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in ~/.aws, "
                "and at the machine's role; on Spark's executors, too, where those read."
            ),
        ) from None
    return signed


def _find_region(bootstrap_servers: str) -> str | None:
    """Return the region that the brokers' names tell, else that of the environment."""
    match = _REGION_OF_HOST.search(bootstrap_servers)
    if match is not None:
        return match[1]
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
