"""Takes, renews and releases the lease of a topic: one run at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from winnow.errors import TopicBusyError
from winnow.pipeline.context import Context, is_process_dead
from winnow.store import Lease


def is_held_by_another(ctx: Context, topic: str) -> bool:
    """Check whether another live run holds ``topic``."""
    lease = ctx.store.leases.find(topic)
    return lease is not None and _is_held_by_live_other(ctx, lease)


def find_topics_held_by_others(ctx: Context, topics: Sequence[str]) -> frozenset[str]:
    """Return those of ``topics`` that other live runs hold, with one query."""
    return frozenset(
        topic for topic, lease in ctx.store.leases.find_many(topics).items() if _is_held_by_live_other(ctx, lease)
    )


def _is_held_by_live_other(ctx: Context, lease: Lease) -> bool:
    return lease.holder != ctx.holder and lease.expires_ms > ctx.now_ms() and not is_process_dead(lease.holder)


def acquire_lease(ctx: Context, topic: str) -> Lease:
    """Take the lease of ``topic``, even if a dead process of this machine still has it.

    Raises:
        TopicBusyError: another live run holds it.
    """
    ttl_ms = ctx.settings.lease_ms
    try:
        return ctx.store.leases.acquire(topic, ctx.holder, ctx.now_ms(), ttl_ms)
    except TopicBusyError:
        lease = ctx.store.leases.find(topic)
        if lease is None or not is_process_dead(lease.holder):
            raise
        ctx.store.leases.release(lease)
        return ctx.store.leases.acquire(topic, ctx.holder, ctx.now_ms(), ttl_ms)


class HeldLeases:
    """The leases that one block renews."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._leases: dict[str, Lease] = {}

    def acquire(self, topic: str) -> Lease:
        """Take the lease of ``topic``, unless it is among these, and have it renewed from now on.

        Raises:
            TopicBusyError: another live run holds it.
        """
        held = self._leases.get(topic)
        return held if held is not None else self.add(acquire_lease(self._ctx, topic))

    def add(self, lease: Lease) -> Lease:
        """Have ``lease`` renewed from now on."""
        self._leases[lease.topic] = lease
        return lease

    def release(self, topic: str) -> None:
        """Release ``topic``, if it is among these leases."""
        lease = self._leases.pop(topic, None)
        if lease is not None:
            self._ctx.store.leases.release(lease)

    def release_all(self) -> None:
        """Release all topics; a failed release does not stop the others."""
        with ExitStack() as releases:
            for topic in tuple(self._leases):
                releases.callback(self.release, topic)

    def renew(self) -> None:
        """Renew every lease. One that another run took over cannot be renewed: that costs work, never data."""
        for lease in tuple(self._leases.values()):
            with suppress(Exception):  # the commit loop detects the lost lease
                self._ctx.store.leases.renew(lease, self._ctx.now_ms(), self._ctx.settings.lease_ms)


@contextmanager
def renew_leases(ctx: Context) -> Iterator[HeldLeases]:
    """Renew the leases that the block takes or adds, all in one background thread. Does not release them."""
    held = HeldLeases(ctx)
    with renew_in_background(ctx, held.renew, name="leases"):
        yield held


@contextmanager
def hold_leases(ctx: Context) -> Iterator[HeldLeases]:
    """Renew leases as :func:`renew_leases`, and release those that are left when the block ends."""
    with renew_leases(ctx) as held:
        try:
            yield held
        finally:
            held.release_all()


@contextmanager
def hold_lease(ctx: Context, topic: str) -> Iterator[Lease]:
    """Hold the lease of ``topic`` and renew it in the background until the block ends."""
    with hold_leases(ctx) as held:
        yield held.acquire(topic)


@contextmanager
def renew_in_background(ctx: Context, renew: Callable[[], None], *, name: str) -> Iterator[None]:
    """Call ``renew`` three times per lease duration, in a thread called ``name``, until the block ends."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(ctx.settings.lease_ms / 3000):
            renew()

    thread = threading.Thread(target=run, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def release_lease(ctx: Context, topic: str) -> None:
    """Release ``topic`` if this holder has it; an earlier process of the same holder may have taken it."""
    lease = ctx.store.leases.find(topic)
    if lease is not None and lease.holder == ctx.holder:
        ctx.store.leases.release(lease)
