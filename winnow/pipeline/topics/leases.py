"""Takes, renews and releases the lease of a topic: one run at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from winnow.errors import TopicBusyError
from winnow.pipeline.installation import Installation, is_process_dead
from winnow.store import Lease


def is_held_by_another(installation: Installation, topic: str) -> bool:
    """Check whether another live run holds ``topic``."""
    lease = installation.store.leases.find(topic)
    return lease is not None and _is_held_by_live_other(installation, lease)


def find_topics_held_by_others(installation: Installation, topics: Sequence[str]) -> frozenset[str]:
    """Return those of ``topics`` that other live runs hold, with one query."""
    return frozenset(
        topic
        for topic, lease in installation.store.leases.find_many(topics).items()
        if _is_held_by_live_other(installation, lease)
    )


def _is_held_by_live_other(installation: Installation, lease: Lease) -> bool:
    return (
        lease.holder != installation.holder
        and lease.expires_ms > installation.now_ms()
        and not is_process_dead(lease.holder)
    )


def acquire_lease(installation: Installation, topic: str) -> Lease:
    """Take the lease of ``topic``, even if a dead process of this machine still has it.

    Raises:
        TopicBusyError: another live run holds it.
    """
    ttl_ms = installation.settings.lease_ms
    try:
        return installation.store.leases.acquire(topic, installation.holder, installation.now_ms(), ttl_ms)
    except TopicBusyError:
        lease = installation.store.leases.find(topic)
        if lease is None or not is_process_dead(lease.holder):
            raise
        installation.store.leases.release(lease)
        return installation.store.leases.acquire(topic, installation.holder, installation.now_ms(), ttl_ms)


class HeldLeases:
    """The leases that one block renews."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._leases: dict[str, Lease] = {}

    def acquire(self, topic: str) -> Lease:
        """Take the lease of ``topic``, unless it is among these, and have it renewed from now on.

        Raises:
            TopicBusyError: another live run holds it.
        """
        held = self._leases.get(topic)
        return held if held is not None else self.add(acquire_lease(self._installation, topic))

    def add(self, lease: Lease) -> Lease:
        """Have ``lease`` renewed from now on."""
        self._leases[lease.topic] = lease
        return lease

    def release(self, topic: str) -> None:
        """Release ``topic``, if it is among these leases."""
        lease = self._leases.pop(topic, None)
        if lease is not None:
            self._installation.store.leases.release(lease)

    def release_all(self) -> None:
        """Release all topics; a failed release does not stop the others."""
        with ExitStack() as releases:
            for topic in tuple(self._leases):
                releases.callback(self.release, topic)

    def renew(self) -> None:
        """Renew every lease. One that another run took over cannot be renewed: that costs work, never data."""
        for lease in tuple(self._leases.values()):
            with suppress(Exception):  # the commit loop detects the lost lease
                self._installation.store.leases.renew(
                    lease, self._installation.now_ms(), self._installation.settings.lease_ms
                )


@contextmanager
def renew_leases(installation: Installation) -> Iterator[HeldLeases]:
    """Renew the leases that the block takes or adds, all in one background thread. Does not release them."""
    held = HeldLeases(installation)
    with renew_in_background(installation, held.renew, name="leases"):
        yield held


@contextmanager
def hold_leases(installation: Installation) -> Iterator[HeldLeases]:
    """Renew leases as :func:`renew_leases`, and release those that are left when the block ends."""
    with renew_leases(installation) as held:
        try:
            yield held
        finally:
            held.release_all()


@contextmanager
def hold_lease(installation: Installation, topic: str) -> Iterator[Lease]:
    """Hold the lease of ``topic`` and renew it in the background until the block ends."""
    with hold_leases(installation) as held:
        yield held.acquire(topic)


@contextmanager
def renew_in_background(installation: Installation, renew: Callable[[], None], *, name: str) -> Iterator[None]:
    """Call ``renew`` three times per lease duration, in a thread called ``name``, until the block ends."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(installation.settings.lease_ms / 3000):
            renew()

    thread = threading.Thread(target=run, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def release_lease(installation: Installation, topic: str) -> None:
    """Release ``topic`` if this holder has it; an earlier process of the same holder may have taken it."""
    lease = installation.store.leases.find(topic)
    if lease is not None and lease.holder == installation.holder:
        installation.store.leases.release(lease)
