"""Documents of Protobuf as descriptors: compiled by protoc, or as serializers register them, in base64.

protoc comes with grpcio-tools and runs as a process of its own, which a hostile document may end or keep busy for a
while, and no more.
"""

from __future__ import annotations

import base64
import binascii
import subprocess
import sys
import tempfile
from functools import lru_cache
from importlib import util
from pathlib import Path, PurePosixPath

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from winnow.errors import ConfigurationError
from winnow.schemas.documents import SchemaDocument, UnusableSchemaError, require_readable_size, walk_references
from winnow.schemas.framing import MessagePath

_TIMEOUT_S = 30
_MAIN = "main.proto"
_META = """\
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL = """\
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_BUILT_IN = {"confluent/meta.proto": _META, "confluent/type/decimal.proto": _DECIMAL}
"""What Confluent's registry knows without a reference, beside Google's types."""

_GOOGLE_FILES = tuple(
    module.DESCRIPTOR.serialized_pb
    # Each after those that it imports.
    for module in (
        *(any_pb2, source_context_pb2, type_pb2, api_pb2, descriptor_pb2, duration_pb2),
        *(empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2),
    )
)


def find_message(document: SchemaDocument, path: MessagePath) -> Descriptor:
    """Return the message of ``document`` at ``path``, indices of messages and of those nested in them.

    Raises:
        UnusableSchemaError: the document is not valid, or has no such message.
        ConfigurationError: the compiler is not installed.
    """
    main, pool = _load(document)
    names = [main.package] if main.package else []
    messages = main.message_type
    for index in path:
        if index >= len(messages):
            raise UnusableSchemaError(f"has no message {'.'.join(map(str, path))}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return pool.FindMessageTypeByName(".".join(names))


def find_path(document: SchemaDocument, name: str) -> MessagePath:
    """Return the path to the message with the full ``name``, its package included, in ``document`` itself.

    Raises:
        UnusableSchemaError: the document is not valid, or has no such message.
        ConfigurationError: the compiler is not installed.
    """
    main, _ = _load(document)
    package = f"{main.package}." if main.package else ""
    messages, path = main.message_type, list[int]()
    for part in name.removeprefix(package).split(".") if name.startswith(package) else [""]:
        index = next((index for index, message in enumerate(messages) if message.name == part), None)
        if index is None:
            raise UnusableSchemaError("has no message of the name that the topic's configuration gives")
        path.append(index)
        messages = messages[index].nested_type
    return tuple(path)


@lru_cache(maxsize=256)
def _load(document: SchemaDocument) -> tuple[descriptor_pb2.FileDescriptorProto, descriptor_pool.DescriptorPool]:
    require_readable_size(document)
    files = _read_serialized(document) or _compile(document)
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
        for file in files:
            pool.FindFileByName(file.name)
    except Exception:  # the library raises TypeError, KeyError and others, by its implementation
        raise UnusableSchemaError("is not valid Protobuf") from None
    return files[-1], pool


def _read_serialized(document: SchemaDocument) -> list[descriptor_pb2.FileDescriptorProto]:
    """Return the descriptors of documents in base64, the schema's last; empty if it is text."""
    files = []
    for name, text in [
        *((reference.name, reference.document.text) for reference in walk_references(document)),
        ("", document.text),
    ]:
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError, DecodeError):
            return []
        file.name = name or file.name or _MAIN
        files.append(file)
    known = {file.name for file in files}
    google = map(descriptor_pb2.FileDescriptorProto.FromString, _GOOGLE_FILES)
    return [*(file for file in google if file.name not in known), *files]


def _compile(document: SchemaDocument) -> list[descriptor_pb2.FileDescriptorProto]:
    compiler = util.find_spec("grpc_tools")
    if compiler is None or not compiler.submodule_search_locations:
        raise ConfigurationError(
            "Protobuf's compiler is not installed.", next="Install 'winnow-log[schemas]' wherever schemas are read."
        )
    with tempfile.TemporaryDirectory(prefix="winnow-protobuf-") as name:
        folder = Path(name)
        references = {reference.name: reference.document.text for reference in walk_references(document)}
        for path, text in {**_BUILT_IN, **references, _MAIN: document.text}.items():
            _write(folder, path, text)
        common = util.find_spec("google.type")
        includes = [folder, Path(compiler.submodule_search_locations[0]) / "_proto"]
        if common is not None and common.submodule_search_locations:
            includes.append(Path(next(iter(common.submodule_search_locations))).parents[1])
        output = folder / "descriptors"
        command = [sys.executable, "-I", "-m", "grpc_tools.protoc", *(f"-I{include}" for include in includes)]
        command += ["--include_imports", f"--descriptor_set_out={output}", str(folder / _MAIN)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise UnusableSchemaError(f"was not compiled within {_TIMEOUT_S} seconds") from None
        if done.returncode != 0:
            raise UnusableSchemaError("is not valid Protobuf")
        return list(descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes()).file)


def _write(folder: Path, path: str, text: str) -> None:
    """Write a document where an import finds it; a name that leads elsewhere is no path of a document."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path or "\\" in path:
        raise UnusableSchemaError("refers to a document whose name is not a path")
    place = folder.joinpath(*parts)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    except (OSError, ValueError):
        raise UnusableSchemaError("refers to a document whose name is not a path") from None
