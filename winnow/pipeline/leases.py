"""Takes, renews and releases the lease of a topic: one run at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from winnow.errors import TopicBusyError
from winnow.pipeline.context import Context, is_process_dead
from winnow.store import Lease


def is_held_by_another(ctx: Context, topic: str) -> bool:
    """Whether another live run holds ``topic``."""
    lease = ctx.store.leases.find(topic)
    return lease is not None and _is_held_by_live_other(ctx, lease)


def find_topics_held_by_others(ctx: Context, topics: Sequence[str]) -> frozenset[str]:
    """Those of ``topics`` that other live runs hold; one question for all."""
    return frozenset(
        topic for topic, lease in ctx.store.leases.find_many(topics).items() if _is_held_by_live_other(ctx, lease)
    )


def _is_held_by_live_other(ctx: Context, lease: Lease) -> bool:
    return lease.holder != ctx.holder and lease.expires_ms > ctx.now_ms() and not is_process_dead(lease.holder)


def acquire_lease(ctx: Context, topic: str) -> Lease:
    """Take the lease of ``topic``, from a dead process of this machine too.

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


@contextmanager
def hold_lease(ctx: Context, topic: str) -> Iterator[Lease]:
    """Hold the lease of ``topic`` and renew it in the background until the block ends."""
    lease = acquire_lease(ctx, topic)
    try:
        with renew_leases(ctx, [lease]):
            yield lease
    finally:
        ctx.store.leases.release(lease)


@contextmanager
def renew_leases(ctx: Context, leases: Sequence[Lease]) -> Iterator[None]:
    """Renew ``leases`` in the background until the block ends. Whoever took them gives them back."""
    stop = threading.Event()

    def renew() -> None:
        current = list(leases)
        while current and not stop.wait(ctx.settings.lease_ms / 3000):
            current = [renewed for lease in current if (renewed := _renew_lease(ctx, lease)) is not None]

    thread = threading.Thread(target=renew, daemon=True, name="leases")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _renew_lease(ctx: Context, lease: Lease) -> Lease | None:
    try:
        return ctx.store.leases.renew(lease, ctx.now_ms(), ctx.settings.lease_ms)
    except Exception:  # a lost lease costs work, never data: the commit loop decides
        return None


def release_lease(ctx: Context, topic: str) -> None:
    """Give ``topic`` back if this holder has it; an earlier process of the same holder may have taken it."""
    lease = ctx.store.leases.find(topic)
    if lease is not None and lease.holder == ctx.holder:
        ctx.store.leases.release(lease)
