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


def fence_shares(settings: ClientSettings, target: str, recorded: int | None) -> None:
    """Fence the shares of earlier calls and abort what they left open.

    ``recorded``: how many the restore has; None: it is not known, so all that a restore may have.

    Raises:
        ServiceError: the cluster cannot be reached.
        ConfigurationError: the client may not use the name of a share that is recorded.
    """
    if recorded == 1:
        return
    numbers = range(1, (recorded or MAXIMUM_SHARES) + 1)
    with ThreadPoolExecutor(len(numbers)) as threads:
        fencing = [threads.submit(_fence, settings, target, number) for number in numbers]
    for each in fencing:
        try:
            each.result()
        except ConfigurationError:
            # The name of the restore itself was allowed. Who may not use these has no shares.
            if recorded is not None:
                raise


def _fence(settings: ClientSettings, target: str, number: int) -> None:
    with TransactionalWriter(settings, target, name_share(target, number)) as writer:
        writer.open()
