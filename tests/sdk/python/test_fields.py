"""Every field, item and tool of the SDK's request types is in the gateway's table of fields.

The table is in docs/compatibility.md, where a test of the gateway keeps it as it is in the code. A field that a new version of
the SDK brings fails here until the table says what becomes of it.
"""

import pathlib
import re
import typing

import pytest
import typing_extensions
from openai.types.responses import response_create_params, response_input_item_param, tool_param

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "compatibility.md").read_text()


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def table():
    """The fields by object; None: the object is treated as a whole."""
    _, rest = PAGE.split("<!-- fields: made from crates/protocol/src/request/field_table.rs -->\n\n")
    rows = rest.split("\n<!-- end of fields -->")[0].splitlines()[2:]
    known = {}
    for row in rows:
        objects, honoured, no_ops, refused = (cell.strip() for cell in row.strip("|").split("|"))
        place, *types = names(objects)
        fields = {*names(honoured), *names(no_ops), *names(refused)}
        is_whole = not honoured.startswith("`") and not no_ops and place != "request"
        for kind in types or [""]:
            known[place, kind] = None if is_whole and honoured else fields
    documented = re.findall(r"^\| `(\w+)` \|", PAGE.split("## Request fields")[1].split("\n## ")[0].split("\n### ")[0], re.M)
    known["request", ""] |= set(documented)
    return known


TABLE = table()


def bare(kind):
    """A type without `Required`, `NotRequired` and `Annotated`."""
    wrappers = (typing_extensions.Required, typing_extensions.NotRequired, typing_extensions.Annotated)
    while typing.get_origin(kind) in wrappers or str(typing.get_origin(kind)).startswith("typing.Required"):
        kind = typing.get_args(kind)[0]
    return kind


def objects_in(kind):
    """The objects that a value of this type may be or hold in a list."""
    kind = bare(kind)
    if typing_extensions.is_typeddict(kind):
        return [kind]
    return [found for inner in typing.get_args(kind) for found in objects_in(inner)]


def hints(cls):
    return {name: bare(kind) for name, kind in typing.get_type_hints(cls).items()}


def kinds(cls):
    """Its values of `type`; none for an object that is known by its place alone."""
    kind = hints(cls).get("type")
    return list(typing.get_args(kind)) if kind is not None and typing.get_origin(kind) is typing.Literal else []


def walk():
    """Every (place, type, field) of the SDK's types."""
    request = hints(response_create_params.ResponseCreateParamsNonStreaming)
    yield from (("request", "", field) for field in request)
    plain = ["reasoning", "text", "stream_options", "conversation", "prompt", "prompt_cache_options"]
    whole = ["access_programs", "background_options", "image", "moderation"]
    for place in plain + whole:
        for cls in objects_in(request[place]):
            yield from ((place, "", field) for field in hints(cls))
    for cls in objects_in(request["context_management"]):
        yield from (("context_management[]", "", field) for field in hints(cls))
    typed = [
        ("text.format", hints(objects_in(request["text"])[0])["format"]),
        ("tool_choice", request["tool_choice"]),
        ("tools[]", tool_param.ToolParam),
        ("input[]", response_input_item_param.ResponseInputItemParam),
    ]
    content = []
    for place, union in typed:
        for cls in objects_in(union):
            fields = hints(cls)
            for kind in kinds(cls) or ["item_reference"]:
                yield from ((place, kind, field) for field in fields)
            if place == "input[]":
                content += [part for name in ("content", "output") if name in fields for part in objects_in(fields[name])]
    for part in content:
        for kind in kinds(part):
            if kind in ("input_text", "input_image", "input_file", "output_text", "refusal"):
                yield from (("content[]", kind, field) for field in hints(part))


FIELDS = sorted(set(walk()))


def test_the_walk_sees_the_sdks_types():
    assert len(FIELDS) > 250
    for seen in [("tools[]", "function", "async"), ("content[]", "input_text", "text"), ("prompt_cache_options", "", "prewarm")]:
        assert seen in FIELDS


@pytest.mark.parametrize(("place", "kind"), sorted({(place, kind) for place, kind, _ in FIELDS}))
def test_the_table_knows_each_object_and_each_of_its_fields(place, kind):
    assert (place, kind) in TABLE, "docs/compatibility.md and crates/protocol/src/request/field_table.rs do not know the object"
    known = TABLE[place, kind]
    fields = {field for where, what, field in FIELDS if (where, what) == (place, kind)}
    assert known is None or fields <= known, f"unknown fields: {sorted(fields - known)}"
