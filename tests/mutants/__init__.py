"""Deliberate breakages of the rules, each with the test that catches it."""

from __future__ import annotations

from tests.mutants.backups import BACKUPS
from tests.mutants.configuration_undo import CONFIGURATION_UNDO
from tests.mutants.decisions import DECISIONS
from tests.mutants.documents import DOCUMENTS
from tests.mutants.durability import DURABILITY
from tests.mutants.engine import ENGINE
from tests.mutants.erase import ERASE
from tests.mutants.erase_approval import ERASE_APPROVAL
from tests.mutants.erase_arrivals import ERASE_ARRIVALS
from tests.mutants.erase_register import ERASE_REGISTER
from tests.mutants.erase_versions import ERASE_VERSIONS
from tests.mutants.freshness import FRESHNESS
from tests.mutants.ingest import INGEST
from tests.mutants.installations import INSTALLATIONS
from tests.mutants.integrity import INTEGRITY
from tests.mutants.kafka_answers import KAFKA_ANSWERS
from tests.mutants.kafka_certificate import KAFKA_CERTIFICATE
from tests.mutants.kafka_clients import KAFKA_CLIENTS
from tests.mutants.kafka_configuration import KAFKA_CONFIGURATION
from tests.mutants.kafka_epochs import KAFKA_EPOCHS
from tests.mutants.kafka_mirrors import KAFKA_MIRRORS
from tests.mutants.kafka_parity import KAFKA_PARITY
from tests.mutants.kafka_restore import KAFKA_RESTORE
from tests.mutants.kafka_restore_shares import KAFKA_RESTORE_SHARES
from tests.mutants.kafka_restore_writing import KAFKA_RESTORE_WRITING
from tests.mutants.kafka_topics import KAFKA_TOPICS
from tests.mutants.kafka_transactions import KAFKA_TRANSACTIONS
from tests.mutants.maintenance import MAINTENANCE
from tests.mutants.page import PAGE
from tests.mutants.partitioned_table import PARTITIONED_TABLE
from tests.mutants.publishing import PUBLISHING
from tests.mutants.readers import READERS
from tests.mutants.recognition import RECOGNITION
from tests.mutants.recovery import RECOVERY
from tests.mutants.schemas import SCHEMAS
from tests.mutants.second_person import SECOND_PERSON
from tests.mutants.typed_columns import TYPED_COLUMNS
from tests.mutants.typed_table import TYPED_TABLE
from tests.mutants.undo import UNDO
from tests.mutants.validation import VALIDATION
from tests.mutants.vended import VENDED

MUTANTS = (
    *DECISIONS,
    *ENGINE,
    *PUBLISHING,
    *VALIDATION,
    *INGEST,
    *DURABILITY,
    *INSTALLATIONS,
    *DOCUMENTS,
    *INTEGRITY,
    *MAINTENANCE,
    *UNDO,
    *SECOND_PERSON,
    *CONFIGURATION_UNDO,
    *ERASE,
    *ERASE_APPROVAL,
    *ERASE_ARRIVALS,
    *ERASE_VERSIONS,
    *ERASE_REGISTER,
    *PAGE,
    *READERS,
    *RECOGNITION,
    *RECOVERY,
    *SCHEMAS,
    *BACKUPS,
    *KAFKA_CONFIGURATION,
    *KAFKA_ANSWERS,
    *KAFKA_EPOCHS,
    *KAFKA_TOPICS,
    *KAFKA_RESTORE,
    *KAFKA_RESTORE_SHARES,
    *KAFKA_RESTORE_WRITING,
    *KAFKA_TRANSACTIONS,
    *KAFKA_CLIENTS,
    *KAFKA_MIRRORS,
    *KAFKA_PARITY,
    *KAFKA_CERTIFICATE,
    *VENDED,
    *TYPED_COLUMNS,
    *TYPED_TABLE,
    *PARTITIONED_TABLE,
    *FRESHNESS,
)
