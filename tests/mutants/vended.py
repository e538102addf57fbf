"""Breakages of vended credentials: which table one opens, and what happens when it expires amid work."""

from __future__ import annotations

from tests.mutants.changes import drop_statement, never, replace, return_value
from tests.mutants.mutant import Mutant

VENDED: tuple[Mutant, ...] = (
    Mutant("vended-kept-too-long", "a credential is used until the store refuses it")
    .changes("Credential.is_due", return_value("False"))
    .caught_by("test_credentials_are_asked_for_again_five_minutes_before_they_expire"),
    Mutant("vended-for-each-file", "the catalog is asked for each file")
    .changes("Credential.is_due", return_value("True"))
    .caught_by("test_credentials_are_asked_for_again_five_minutes_before_they_expire"),
    Mutant("vended-dropped-early", "a credential that still serves is given up while the catalog is away")
    .changes("VendedStores._open", replace("known[0].has_expired(A)", "True"))
    .caught_by("test_credentials_are_asked_for_again_five_minutes_before_they_expire"),
    Mutant("vended-for-a-namesake", "the credentials of a topic's present life are used for a former one's folder")
    .changes("VendedStores._obtain", replace("object_store.find_path_in_store(location) != folder", "False"))
    .caught_by("test_a_credential_opens_its_table_and_no_other"),
    Mutant("vended-of-another-table", "the credentials of one table are used for all")
    .changes("VendedStores._open", replace("self._opened.get(folder)", "next(iter(self._opened.values()), None)"))
    .caught_by("test_a_credential_opens_its_table_and_no_other"),
    Mutant("vended-outside-of-tables", "what is in no table's folder is opened with access of the process's own")
    .changes("VendedStores._find_folder", replace("not folder or not A", "False"))
    .caught_by("test_a_credential_opens_its_table_and_no_other"),
    Mutant("vended-refused-for-good", "a session that the store ended early is used until it would have expired")
    .changes("VendedStores.run", replace("is_new or not A", "True"))
    .caught_by("test_sessions_that_end_before_a_publish_are_replaced"),
    Mutant("vended-worst-prefix", "the credential of the shortest prefix is taken")
    .changes("choose_credential", replace("fitting[-1]", "fitting[0]"))
    .caught_by("test_a_credential_opens_its_table_and_no_other"),
    Mutant("vended-nothing-vended", "a catalog that vends nothing is found out by the store")
    .changes("VendedStores._obtain", drop_statement("vends no credentials for the table"))
    .caught_by("test_a_catalog_that_vends_nothing_is_named"),
    Mutant("vended-quarantine-later", "tasks write keyless records below a table that the catalog does not have yet")
    .changes("plan.plan_topic", drop_statement("prepare"))
    .caught_by("test_keyless_records_reach_the_quarantine_before_it_has_a_commit"),
    Mutant("vended-copies-outside", "copies of documents lie where the catalog vends nothing")
    .changes("Namespaces._locate", return_value('f"{self.topics}_{name}"'))
    .caught_by("test_sessions_that_end_before_a_publish_are_replaced"),
    Mutant("vended-session-is-damage", "a session that ends while Spark's task looks for damage marks the partition")
    .changes("damage._describe_read_error", never("is_store_error"))
    .caught_by("test_a_session_that_ends_while_a_file_is_read_is_no_damage[compact-ingest-]"),
    Mutant("vended-session-fails-validation", "a session that ends while a result is read makes it a wrong one")
    .changes("reading.read_batches", never("is_store_error"))
    .caught_by("test_a_session_that_ends_while_a_file_is_read_is_no_damage[compact-a-]"),
)
