"""Mutants of schemas: what is read of hostile bytes and documents, what a registry is asked and told."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    drop_element,
    drop_keyword,
    drop_statement,
    never,
    replace,
    replace_text,
    return_value,
    set_keyword,
)
from tests.mutants.mutant import Mutant

_LIMITS = "test_value_that_no_column_holds_is_an_error_of_its_datum"
_HOSTILE_AVRO = "test_hostile_schemas_of_avro_are_refused"
_HOSTILE_JSON = "test_hostile_schemas_of_json_are_refused"
_HOSTILE_PROTOBUF = "test_hostile_documents_of_protobuf_are_refused"
_HOSTILE_REGISTRY = "test_hostile_answers_are_errors_of_the_datums"
_DOWN = "test_registry_that_is_down_slow_or_refuses_is_an_error_of_a_service"
_ONCE = "test_no_id_is_asked_for_twice_and_bytes_that_are_no_datums_not_without_end"

SCHEMAS = (
    Mutant("avro-bytes-left-over", "a datum of Avro may have more bytes than its schema says")
    .changes("_make_parser.parse", never("stream"))
    .caught_by("test_damaged_datums_of_avro_are_errors_of_those_datums_only"),
    Mutant("avro-branches-from-the-end", "a negative index counts branches and symbols from the last")
    .changes("avro._make_readable", replace("{'type': 'union', **branches}", "list(branches.values())"))
    .caught_by("test_negative_index_of_a_symbol_or_branch_is_an_error"),
    Mutant("avro-believes-marks", "a document may say that it was parsed before")
    .changes("avro._strip", replace("name in _KEPT", "True"))
    .caught_by("test_document_that_claims_to_be_parsed_is_not_believed"),
    Mutant("avro-batch-leaves-bytes", "of datums that are read at once the last bytes may be left")
    .changes("make_batch_reader.read_batch", drop_statement("cursors"))
    .caught_by("test_a_batch_gives_the_rows_and_errors_of_its_datums_one_by_one"),
    Mutant("avro-batch-reads-on", "a datum that is read with others may go on in the next one")
    .changes("_Walk._advance", drop_statement("doubt_where"))
    .caught_by("test_a_batch_gives_the_rows_and_errors_of_its_datums_one_by_one"),
    Mutant(
        "avro-batch-nulls-what-does-not-fit", "a value that its column cannot hold is null where many are read at once"
    )
    .changes("_make_scalar.read_fitting", never("null_count"))
    .caught_by("test_ordinary_datums_are_read_at_once"),
    Mutant("avro-batch-doubles-keys", "a map that is read with others may have a key twice")
    .changes("_make_map.read_map", drop_statement("is_doubtful"))
    .caught_by("test_of_a_key_that_a_map_has_twice_the_last_value_counts"),
    Mutant("avro-types-multiply", "names that are written out may double without end")
    .changes("_Types._require_light", never("weight"))
    .caught_by(_HOSTILE_AVRO),
    Mutant("avro-lists-of-nothing", "a list may have any number of values that take no bytes")
    .changes("_Types.weigh", never("size_bytes"))
    .caught_by(_HOSTILE_AVRO),
    Mutant("values-wrap-around", "a number beyond its column is taken as it is")
    .changes("_make_bounded.fit", never("bounds"))
    .caught_by(_LIMITS),
    Mutant("decimal-too-long", "a decimal may have more digits than its column")
    .changes("make_decimal.convert", always("limit"))
    .caught_by(_LIMITS),
    Mutant("row-of-wrong-value-kept", "a row whose value did not fit stays, with null in its place")
    .changes("_read_each", never("problems"))
    .caught_by(_LIMITS),
    Mutant("json-columns-without-end", "properties may multiply by references")
    .changes("json_schema._Types.make_column", never("MAXIMUM_COLUMNS"))
    .caught_by(_HOSTILE_JSON),
    Mutant("json-shapes-unchecked", "anything may stand where an object or a list should")
    .changes("_require_shape", never("is_right"))
    .caught_by("test_errors_name_the_field_and_quote_nothing"),
    Mutant("json-digits-lost", "numbers in JSON text pass through those of the processor")
    .changes("json_schema._DECODER", set_keyword("float_hook", "float"))
    .caught_by("test_numbers_in_json_text_keep_every_digit"),
    Mutant("protobuf-writes-anywhere", "the name of a referenced document is a path to anywhere")
    .changes("protobuf_files._write", never("parts"))
    .caught_by(_HOSTILE_PROTOBUF),
    Mutant("protobuf-presence-ignored", "what a datum leaves out is never null")
    .changes("_Types._make_field", never("has_presence"))
    .caught_by("test_rows_of_any_message_equal_those_of_the_plain_decoder"),
    Mutant("protobuf-message-without-package", "a message may be named without its package")
    .changes("protobuf_files.find_path", always("startswith"))
    .caught_by("test_a_message_is_chosen_by_its_full_name"),
    Mutant("schema-of-any-size", "a document may be of any size")
    .changes("require_readable_size", never("MAXIMUM_SCHEMA_BYTES"))
    .caught_by(_HOSTILE_AVRO),
    Mutant("schema-of-another-kind", "a document is read whatever its kind")
    .changes("FramedDecoder._make", never("kind"))
    .caught_by("test_json_with_a_schema_is_read"),
    Mutant("schema-header-not-read", "a datum whose header names its schema is read as if it began with an id")
    .changes("find_header_ids", always("true_count"))
    .caught_by("test_body_that_begins_like_an_id_is_of_the_schema_that_its_header_names"),
    Mutant("schema-header-last", "of several headers that name a schema the last one counts")
    .changes("find_header_ids", replace("name is not HEADER_NAMES[side]", "True"))
    .caught_by("test_a_header_without_a_value_names_no_schema"),
    Mutant("schema-header-ignored-if-damaged", "a datum whose header is damaged is read as if it had none")
    .changes("FramedDecoder._group_by_schema", replace("np.flatnonzero(~is_bare)", "np.arange(len(datums))"))
    .caught_by("test_hostile_headers_are_errors_of_their_records_and_quote_nothing"),
    Mutant("schema-header-longer", "a header may have more bytes than its id")
    .changes("FramedDecoder._group_by_header", always("end"))
    .caught_by("test_hostile_headers_are_errors_of_their_records_and_quote_nothing"),
    Mutant("guid-quoted", "the GUID that a header names is repeated in an error")
    .changes("documents.describe_schema", never("UUID"))
    .caught_by("test_hostile_headers_are_errors_of_their_records_and_quote_nothing"),
    Mutant(
        "apicurio-global-id-ignored",
        "a datum that a global id names is read by its first bytes as one of another schema",
    )
    .changes(
        "header_ids._convert_content_ids", replace("pc.or_(content.is_valid(), other.is_valid())", "content.is_valid()")
    )
    .caught_by("test_content_ids_of_apicurio_are_read_and_no_other_ids_of_it_are_taken_for_them"),
    Mutant("apicurio-json-as-binary", "Avro that was written as JSON is read as binary")
    .changes("header_ids._convert_content_ids", replace("pc.and_(is_readable, is_binary)", "is_readable"))
    .caught_by("test_content_ids_of_apicurio_are_read_and_no_other_ids_of_it_are_taken_for_them"),
    Mutant("guid-at-the-head-not-read", "a datum that begins with the GUID of its schema is an error")
    .changes("framing.find_schema_ids", never("others"))
    .caught_by("test_ids_in_headers_and_in_payloads_are_read_as_confluents_deserializer_does"),
    Mutant("guid-path-misplaced", "the path to a message is looked for where it follows an id, not a GUID")
    .changes("FramedDecoder._group_by_path", replace("int(starts[position])", "HEAD_BYTES"))
    .caught_by("test_path_of_a_protobuf_message_follows_in_the_header"),
    Mutant("guid-shown", "sixteen bytes of a value are shown as a GUID that nobody knows")
    .changes("report_schema_ids", replace("isinstance(use.schema_id, int) or use.kind", "True"))
    .caught_by("test_schemas_that_headers_and_heads_name_are_counted_by_id_and_by_guid"),
    Mutant("guid-not-kept", "a schema that is pulled by its GUID is not kept")
    .changes("kept_documents.unpack_documents", drop_statement("UUID"))
    .caught_by("test_guids_are_kept_as_ids_are_and_those_that_the_registry_does_not_know_are_counted"),
    Mutant("guid-not-answered-fails", "a registry that finds nothing by GUID fails the update")
    .changes("SchemaRegistry.find_document", drop_keyword("can_lack_route"))
    .caught_by("test_a_schema_is_asked_for_by_its_guid"),
    Mutant("schema-headers-not-counted", "schemas that headers name are not counted")
    .changes("_build_named_sql", replace_text("coalesce(", "coalesce(NULL AND "))
    .caught_by("test_schemas_that_headers_and_heads_name_are_counted_by_id_and_by_guid"),
    Mutant("kept-schemas-not-asked", "what is kept with a topic is not asked")
    .changes("_Sources.schemas", never("kept"))
    .caught_by("test_what_is_kept_is_read_before_any_registry"),
    Mutant("kept-schemas-not-in-backups", "backups have no kept schemas")
    .changes("TableWalk._walk_state", drop_element("('schemas', FileKind.SCHEMAS)"))
    .caught_by("test_kept_schemas_are_in_backups"),
    Mutant("kept-schemas-not-found-again", "a state that is rebuilt forgets the kept schemas")
    .changes("state_rebuild.rebuild_state", drop_keyword("schemas"))
    .caught_by("test_a_state_that_is_rebuilt_finds_the_kept_schemas_again"),
    Mutant("kept-schemas-outlive-their-topic", "documents of kept schemas are no files of their table")
    .changes("file_names._DOCUMENTS", replace_text("(?:state|schemas)", "state"))
    .caught_by("test_kept_schemas_go_with_a_topic_that_goes_for_good"),
    Mutant("pull-asks-again", "a second pull asks for everything once more")
    .changes(
        "schema_pull.pull_schemas",
        replace("[schema_id for schema_id in named if schema_id not in kept]", "list(named)"),
    )
    .caught_by("test_pulling_again_asks_for_what_is_new_only_and_changes_nothing_without"),
    Mutant("changes-deleted-without-headers", "the key of a deleted record is decoded without its headers")
    .changes("key_changes._read_changes", replace_text("change = 'deleted' THEN old.headers", "false THEN old.headers"))
    .caught_by("test_changes_decode_by_the_schema_that_a_header_names"),
    Mutant("registry-follows-redirects", "credentials go wherever a registry points")
    .changes("SchemaRegistry.__init__", set_keyword("follow_redirects", "True"))
    .caught_by(_DOWN),
    Mutant("registry-of-any-certificate", "the registry's certificate may be of any authority")
    .changes("_make_tls_context", replace("ssl.create_default_context(cafile=A)", "ssl._create_unverified_context()"))
    .caught_by("test_certificates_of_both_sides_are_checked"),
    Mutant("registry-missing-everywhere", "any page that is not there means that there is no such schema")
    .changes("_is_problem", return_value("True", "error_code"))
    .caught_by(_DOWN),
    Mutant("registry-answers-without-end", "an answer of any size is read")
    .changes("SchemaRegistry._ask", never("_MAXIMUM_ANSWER_BYTES"))
    .caught_by("test_answer_without_end_is_not_read_to_its_end"),
    Mutant("registry-circles", "a document may refer to itself")
    .changes("_Collector._find", replace("key in above", "False"))
    .caught_by(_HOSTILE_REGISTRY),
    Mutant("registry-asked-again", "an id that is missing is asked for each time")
    .changes("SchemaCache.find_document", always("_known"))
    .caught_by(_ONCE),
    Mutant("registry-asked-for-noise", "bytes that are no datums are asked for without end")
    .changes("SchemaCache.find_document", never("_missing"))
    .caught_by(_ONCE),
)
