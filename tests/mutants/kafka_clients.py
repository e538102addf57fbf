"""Breakages of the rules about client properties."""

from __future__ import annotations

from tests.mutants.changes import always, drop_operand, drop_statement, never, replace, replace_text, return_value
from tests.mutants.mutant import Mutant

_ONE_ANSWER = "test_all_that_cannot_be_used_is_said_in_one_answer_with_its_line_and_no_value"

KAFKA_CLIENTS: tuple[Mutant, ...] = (
    Mutant("empty-algorithm-dropped", "host names are checked though a file turns that off as Java does")
    .changes("_is_unset", drop_operand("ENDPOINT_CHECK"))
    .caught_by("test_a_java_client_s_file_is_taken_as_it_is"),
    Mutant("decided-property-taken", "a file decides where reading begins and what is committed")
    .changes("_translate_one", replace("known.treatment is Treatment.TAKEN", "True"))
    .caught_by("test_what_would_lose_or_double_records_is_never_taken_over"),
    Mutant("decided-library-property-taken", "a file decides by librdkafka's name how many replicas acknowledge")
    .changes("_translate_one", always("DECIDED_NAMES"))
    .caught_by("test_the_library_s_own_names_are_taken_but_for_those_that_would_lose_records"),
    Mutant("misspelt-name-passed-over", "a property that no client has is left out without a word")
    .changes("_ask_library", drop_statement("_suggest_name"))
    .caught_by(_ONE_ANSWER),
    Mutant("refused-value-shown", "an error repeats the value of a property")
    .changes("_describe_refusal", return_value("said", "REFUSED_VALUE"))
    .caught_by(_ONE_ANSWER),
    Mutant("stray-line-shown", "an error repeats a line that is no property, which may be a part of a password")
    .changes("describe_problems", replace("_SHOWN_NAME.fullmatch(name)", "True"))
    .caught_by(_ONE_ANSWER),
    Mutant("class-of-java-passed-over", "a class that hands out credentials is left out without a word")
    .changes("_judge_handler", never("sasl.password"))
    .caught_by(_ONE_ANSWER),
    Mutant("java-s-ciphers-passed", "OpenSSL gets Java's names of cipher suites")
    .changes("_translate_one", never("_JAVA_CIPHER"))
    .caught_by("test_java_s_cipher_suites_are_refused_and_openssl_s_are_taken"),
    Mutant("java-key-store-taken-for-pkcs12", "a Java key store is passed on as PKCS12")
    .changes("_read_kind", replace("A == _DER_SEQUENCE", "True"))
    .caught_by("test_pkcs12_is_taken_under_the_name_of_a_java_key_store"),
    Mutant("number-out-of-bounds-passed", "a number that the library does not know fails the whole file")
    .changes("_keep_in_bounds", return_value("value", "smallest"))
    .caught_by("test_a_number_below_what_the_library_knows_is_the_smallest_that_it_knows"),
    Mutant("region-of-the-brokers-alone", "a region that the file names is not used")
    .changes("_find_aws_signer", replace("A or _find_region(B)", "_find_region(B)"))
    .caught_by("test_region_is_that_of_the_property_else_of_the_brokers_else_of_the_environment"),
    Mutant("ended-token-used", "a token that has ended is given to the brokers")
    .changes("TokenSource.__call__", drop_operand("time"))
    .caught_by("test_first_token_is_used_once_and_not_when_it_has_ended"),
    Mutant("token-used-for-ever", "the first token is given again when the library asks for another")
    .changes("TokenSource.__call__", replace("(self._newest, None)", "(self._newest, self._newest)"))
    .caught_by("test_first_token_is_used_once_and_not_when_it_has_ended"),
    Mutant("token-failure-shown", "an error repeats what a function said, which may have a secret in it")
    .changes("TokenSource._ask", replace_text("{type(problem).__name__}", "{type(problem).__name__}: {problem}"))
    .caught_by("test_a_function_that_fails_is_said_before_a_client_waits_for_it_without_what_it_said"),
    Mutant("winnow-s-names-for-the-library", "the library gets properties that only Winnow knows")
    .changes("ClientSettings.to_librdkafka", replace("name not in OWN_NAMES", "True"))
    .caught_by(
        "test_java_s_login_module_of_msk_becomes_a_signed_token_of_the_brokers_region"
        "[b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com:9098-eu-west-1]"
    ),
    Mutant("missing-client-certificate-run-again", "brokers that want a client certificate are waited for")
    .changes("_judge_handshake", return_value("None", "_WANT_CERTIFICATE"))
    .caught_by("test_a_certificate_that_does_not_fit_is_said_and_not_to_run_it_again[no certificate]"),
)
