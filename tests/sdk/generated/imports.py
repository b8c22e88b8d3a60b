"""FastMCP makes tools of the operations in openapi.json, and the models that datamodel-code-generator makes of it read a response."""

import asyncio
import json
import os
import sys

import httpx2
import models
from fastmcp import Client, FastMCP

base = os.environ["SDK_OPEN_URL"].removesuffix("/v1")


async def run() -> None:
    with open(sys.argv[1], encoding="utf-8") as document:
        spec = json.load(document)
    async with httpx2.AsyncClient(base_url=base) as http:
        server = FastMCP.from_openapi(openapi_spec=spec, client=http, validate_output=False)
        async with Client(server) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            operations = [each["operationId"] for path in spec["paths"].values() for each in path.values()
                          if isinstance(each, dict) and "operationId" in each]
            missing = set(operations) - set(tools)
            assert not missing, missing
            assert "input" in json.dumps(tools["createResponse"].input_schema), tools["createResponse"]
            answer = await client.call_tool("listModels", {})
            listed = answer.structured_content["data"]
            assert listed and listed[0]["object"] == "model", answer
        made = await http.post("/v1/responses", json={"model": "scripted", "input": "Hello"})
    response = models.Response.model_validate(made.json())
    assert response.output and response.id == made.json()["id"], made.text
    print(f"{len(tools)} tools; {len(listed)} models; {type(response).__name__} with {len(response.output)} items")


asyncio.run(run())
