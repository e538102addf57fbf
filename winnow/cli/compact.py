"""``winnow compact``: everything from assessing to the report, for any number of topics."""

from __future__ import annotations

from winnow.cli.failures import fail, finish
from winnow.cli.options import AsOf, Json, Simulate, Topics, refuse_future, resolve_as_of
from winnow.cli.output import names, tell, write_json
from winnow.cli.progress import CompactionProgress
from winnow.cli.receipts import document
from winnow.cli.world import named_or_all, world
from winnow.model import Status


def compact(topics: Topics = None, as_of: AsOf = None, simulate: Simulate = False, as_json: Json = False) -> None:
    """Keep the last record of each key in what is eligible.

    Plans, rewrites with Spark, judges the result and publishes it in one snapshot per topic. What `winnow assess` calls
    idle is left alone. Readers see the old log until the new one is published. One topic's failure stops no other.
    A named topic that another run holds is refused (exit code 5); where none is named it is left to that run.

    An --as-of more than a minute ahead of the present needs --simulate; what such a run removes before its time by the
    wall clock is said in its result.

    Example: winnow compact orders
    """
    with world() as ctx:
        if not simulate:
            refuse_future(ctx, as_of)
        as_of_ms = resolve_as_of(ctx, as_of)
        chosen = named_or_all(ctx, topics)
        from winnow.pipeline.run import CompactionOutcome, compact_topics

        outcome = CompactionOutcome()
        if chosen:
            with CompactionProgress() as progress:
                outcome = compact_topics(ctx, chosen, as_of_ms=as_of_ms, progress=progress, leave_held=not topics)
    for error in outcome.errors:
        fail(error.message)
    if as_json:
        if outcome.receipts or not outcome.errors:
            write_json([document(receipt) for receipt in outcome.receipts])
        finish(outcome.exit_code)
        return
    from winnow.pipeline.report import paragraph

    said = {error.message for error in outcome.errors}
    for receipt in outcome.receipts:
        if receipt.message not in said:
            tell(paragraph(receipt))
    published = [receipt.topic for receipt in outcome.receipts if receipt.status is Status.PUBLISHED]
    if published:
        tell(f"Next: winnow read {published[0]}" + (f" (published: {names(published)})" if len(published) > 1 else ""))
    finish(outcome.exit_code)
