"""The names under which processes write into one target, and how all of earlier calls are kept from going on.

The process that restores has a name of its own. If several write, each share has another, made of the target's name and
the share's number. All of them commit positions for one group, each those of its own partitions.

Whoever restores opens the first name, which fences earlier calls; they start no process that writes from then on, since
they ask before they let one begin. Then it fences the names of the shares, and only then reads positions: nothing that
was written before it can be committed after that.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from winnow.errors import ConfigurationError
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore.restore_state import MAXIMUM_SHARES


def name_restore(target: str) -> str:
    """Return the transactional id and the consumer group of restores into a topic."""
    return f"winnow-restore-{target}"


def name_share(target: str, number: int) -> str:
    """Return the transactional id of a share, which begin with 1; no topic's name has a colon."""
    return f"{name_restore(target)}:{number}"


def fence_shares(settings: ClientSettings, target: str, *, count: int = MAXIMUM_SHARES, needed: int = 0) -> None:
    """Fence the shares 1 to ``count`` of earlier calls and abort what they left open.

    Beyond the first ``needed``, names that the client may not use are left alone: who may not use them has no shares.

    Raises:
        ServiceError: the cluster cannot be reached.
        ConfigurationError: the client may not use a name that is needed.
    """
    with ThreadPoolExecutor(count) as threads:
        fencing = [threads.submit(_fence, settings, target, number) for number in range(1, count + 1)]
    for number, each in enumerate(fencing, 1):
        try:
            each.result()
        except ConfigurationError as problem:
            if number <= needed:
                raise ConfigurationError(
                    problem.what,
                    problem.left,
                    f"Shares have ids of their own: allow {name_restore(target)} as a prefix of transactional ids "
                    "(kafka-acls.sh --resource-pattern-type prefixed), or restore without --shares.",
                ) from None


def _fence(settings: ClientSettings, target: str, number: int) -> None:
    with TransactionalWriter(settings, target, name_share(target, number)) as writer:
        writer.open()
