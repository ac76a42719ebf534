#!/usr/bin/env python3
"""The official Python clients of OpenAI, Anthropic and ollama, unmodified, against `tamis serve`. usage: serve_clients_test.py TAMIS

Exit 77 where a package of tests/requirements.txt is not installed.
"""
import json
import sys
import typing
import unittest

from serve_test import Running

try:
    import anthropic
    import ollama
    import openai
    import pydantic
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

SCHEMA = {"type": "object", "properties": {"side": {"enum": ["left", "right"]}}, "required": ["side"], "additionalProperties": False}
HELLO = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]


class ClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Running("-c", "2048")  # room for tools in words

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_openai(self):
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
            self.check_openai(client)

    def check_openai(self, client):
        self.assertEqual([model.id for model in client.models.list()], ["cli_tiny"])
        options = {"model": "any", "messages": HELLO, "temperature": 0, "max_tokens": 6, "seed": 1, "extra_body": {"ignore_eos": True}}
        whole = client.chat.completions.create(**options, n=2, logprobs=True, top_logprobs=2)
        self.assertEqual(len(whole.choices), 2)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        self.assertEqual(whole.usage.completion_tokens, 12)
        self.assertEqual(len(whole.choices[0].logprobs.content), 6)
        text, usage = "", None
        for chunk in client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}):
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = chunk.usage or usage
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(usage.completion_tokens, 6)
        completion = client.completions.create(model="any", prompt="hi", max_tokens=2, logprobs=1)
        self.assertIn(completion.choices[0].finish_reason, ("length", "stop"))
        with self.assertRaises(openai.BadRequestError) as refused:
            client.chat.completions.create(**{**options, "temperature": -1})
        self.assertEqual(refused.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            client.models.retrieve("other")

    def test_openai_structured_outputs(self):
        class Turn(pydantic.BaseModel):
            side: typing.Literal["left", "right"]
            steps: int

        options = {"model": "any", "messages": HELLO, "max_tokens": 200, "seed": 1}
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
            turn = client.chat.completions.parse(**options, response_format=Turn).choices[0].message.parsed
            self.assertIsInstance(turn, Turn)
            with client.chat.completions.stream(**options, response_format=Turn) as stream:
                self.assertEqual(stream.get_final_completion().choices[0].message.parsed, turn)
            form = {"type": "json_schema", "json_schema": {"name": "turn", "schema": SCHEMA, "strict": True}}
            answer = client.chat.completions.create(**options, response_format=form)
            self.assertIn(json.loads(answer.choices[0].message.content)["side"], ("left", "right"))
            with self.assertRaises(openai.BadRequestError) as refused:
                client.chat.completions.create(**options, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}})
            self.assertIn("response_format", refused.exception.param)

    def test_openai_tools(self):
        tools = [{"type": "function", "function": {"name": "turn", "description": "turns", "parameters": SCHEMA}}]
        options = {"model": "any", "messages": HELLO, "tools": tools, "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 200, "seed": 1}
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
            choice = client.chat.completions.create(**options).choices[0]
            self.assertEqual(choice.finish_reason, "tool_calls")
            call = choice.message.tool_calls[0]
            self.assertEqual(call.function.name, "turn")
            self.assertIn(json.loads(call.function.arguments)["side"], ("left", "right"))
            with client.chat.completions.stream(**options) as stream:
                done = stream.get_final_completion()
            self.assertEqual(done.choices[0].message.tool_calls[0].function.arguments, call.function.arguments)
            answered = [*HELLO, choice.message, {"role": "tool", "tool_call_id": call.id, "content": "done"}]
            self.assertTrue(client.chat.completions.create(model="any", messages=answered, tools=tools, max_tokens=3).choices)
            with self.assertRaises(openai.BadRequestError) as refused:
                client.chat.completions.create(model="any", messages=[*answered, answered[-1]])
            self.assertEqual(refused.exception.param, f"messages[{len(answered)}].tool_call_id")

    def test_anthropic_tools(self):
        client = anthropic.Anthropic(base_url=self.server.url, api_key="none", max_retries=0)
        options = {"model": "any", "max_tokens": 200, "messages": HELLO[1:], "tools": [{"name": "turn", "input_schema": SCHEMA}],
                   "tool_choice": {"type": "tool", "name": "turn"}, "extra_body": {"temperature": 0}}
        whole = client.messages.create(**options)
        self.assertEqual(whole.stop_reason, "tool_use")
        call = whole.content[-1]
        self.assertEqual((call.type, call.name, list(call.input)), ("tool_use", "turn", ["side"]))
        with client.messages.stream(**options) as stream:
            self.assertEqual(stream.get_final_message().content[-1].input, call.input)
        answered = [*HELLO[1:], {"role": "assistant", "content": whole.content},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "done"}]}]
        self.assertTrue(client.messages.create(**{**options, "messages": answered, "max_tokens": 3, "tool_choice": {"type": "auto"}}).content is not None)

    def test_ollama_tools(self):
        def turn(side: str) -> str:
            """Turns.

            Args:
              side: left or right
            """
            return side

        client = ollama.Client(host=self.server.url)
        answered = [*HELLO, {"role": "assistant", "tool_calls": [{"function": {"name": "turn", "arguments": {"side": "left"}}}]},
                    {"role": "tool", "content": turn("left"), "tool_name": "turn"}]
        options = {"temperature": 0, "num_predict": 6}
        whole = client.chat(model="any", messages=answered, tools=[turn], options=options, think=False)
        pieces = list(client.chat(model="any", messages=answered, tools=[turn], options=options, think=False, stream=True))
        self.assertEqual("".join(piece.message.content or "" for piece in pieces), whole.message.content)

    def test_openai_responses(self):
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
            options = {"model": "any", "instructions": "be brief", "input": "hello", "temperature": 0, "max_output_tokens": 6}
            whole = client.responses.create(**options)
            chat = client.chat.completions.create(model="any", messages=HELLO, temperature=0, max_tokens=6)
            self.assertEqual(whole.output_text, chat.choices[0].message.content)
            self.assertEqual(whole.usage.input_tokens, chat.usage.prompt_tokens)
            streamed = list(client.responses.create(**options, stream=True))
            self.assertEqual([event.sequence_number for event in streamed], list(range(len(streamed))))
            self.assertEqual(streamed[0].type, "response.created")
            self.assertEqual(streamed[-1].type, "response." + whole.status)
            self.assertEqual("".join(event.delta for event in streamed if event.type == "response.output_text.delta"), whole.output_text)
            with client.responses.stream(**options) as stream:
                for _ in stream:
                    pass
                self.assertEqual(stream.get_final_response().output_text, whole.output_text)
            again = client.responses.create(**{**options, "input": [{"role": "user", "content": "hello"}, *whole.output,
                                                                    {"role": "user", "content": "go on"}]})
            self.assertGreater(again.usage.input_tokens, whole.usage.input_tokens)
            form = {"format": {"type": "json_schema", "name": "answer", "schema": {"enum": ["yes", "no"]}}}
            self.assertIn(json.loads(client.responses.create(model="any", input="hello", text=form).output_text), ["yes", "no"])
            self.assertEqual(client.responses.input_tokens.count(model="any", instructions="be brief", input="hello").input_tokens,
                             whole.usage.input_tokens)
            with self.assertRaises(openai.BadRequestError) as refused:
                client.responses.create(**options, previous_response_id=whole.id)
            self.assertEqual(refused.exception.param, "previous_response_id")

    def test_openai_responses_tools(self):
        tools = [{"type": "function", "name": "turn", "description": "turns", "parameters": SCHEMA, "strict": True}]
        options = {"model": "any", "input": "hello", "tools": tools, "tool_choice": {"type": "function", "name": "turn"}, "max_output_tokens": 200,
                   "extra_body": {"seed": 1}}
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
            whole = client.responses.create(**options)
            self.assertEqual(whole.status, "completed")
            self.assertEqual(whole.tools[0].name, "turn")
            (call,) = whole.output
            self.assertEqual((call.type, call.name), ("function_call", "turn"))
            self.assertIn(json.loads(call.arguments)["side"], ("left", "right"))
            streamed = list(client.responses.create(**options, stream=True))
            kinds = [event.type.removeprefix("response.") for event in streamed]
            self.assertEqual([kind for kind, last in zip(kinds, [None, *kinds]) if kind != last],
                             ["created", "in_progress", "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
                              "output_item.done", "completed"])
            self.assertEqual("".join(event.delta for event in streamed if event.type.endswith("arguments.delta")), call.arguments)
            self.assertEqual(streamed[-1].response.output[0].arguments, call.arguments)
            with client.responses.stream(**options) as stream:
                for _ in stream:
                    pass
                self.assertEqual(stream.get_final_response().output[0].arguments, call.arguments)
            history = [{"role": "user", "content": "hello"}, *whole.output, {"type": "function_call_output", "call_id": call.call_id, "output": "done"}]
            after = client.responses.create(model="any", input=history, tools=tools, tool_choice="none", max_output_tokens=3, temperature=0)
            self.assertEqual(after.output[0].type, "message")
            chat = client.chat.completions.create(model="any", max_tokens=3, temperature=0, messages=[
                {"role": "user", "content": "hello"}, {"role": "assistant", "tool_calls": [{"id": call.call_id, "type": "function", "function": {"name": "turn", "arguments": call.arguments}}]},
                {"role": "tool", "tool_call_id": call.call_id, "content": "done"}])
            self.assertEqual(after.output_text, chat.choices[0].message.content)
            self.assertEqual(after.usage.input_tokens, chat.usage.prompt_tokens)
            for kind in ("web_search", "file_search", "code_interpreter", "mcp"):
                with self.assertRaises(openai.BadRequestError) as refused:
                    client.responses.create(model="any", input="hello", tools=[{"type": kind}])
                self.assertEqual(refused.exception.param, "tools[0].type")
                self.assertIn(kind, str(refused.exception))
            with self.assertRaises(openai.BadRequestError) as refused:
                client.responses.create(model="any", input=history[-1:])
            self.assertEqual(refused.exception.param, "input[0].call_id")

    def test_anthropic(self):
        client = anthropic.Anthropic(base_url=self.server.url, api_key="none", max_retries=0)
        options = {"model": "any", "max_tokens": 6, "system": "be brief", "messages": HELLO[1:], "extra_body": {"temperature": 0}}
        whole = client.messages.create(**options)
        self.assertIn(whole.stop_reason, ("max_tokens", "end_turn"))
        with client.messages.stream(**options) as stream:
            self.assertEqual("".join(stream.text_stream), whole.content[0].text)
            self.assertEqual(stream.get_final_message().usage.output_tokens, whole.usage.output_tokens)
        counted = client.messages.count_tokens(model="any", system="be brief", messages=HELLO[1:])
        self.assertEqual(counted.input_tokens, whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0))
        with self.assertRaises(anthropic.BadRequestError):
            client.messages.create(**{**options, "max_tokens": 0})

    def test_ollama(self):
        client = ollama.Client(host=self.server.url)
        options = {"temperature": 0, "num_predict": 6}
        whole = client.chat(model="any", messages=HELLO, options=options)
        pieces = list(client.chat(model="any", messages=HELLO, options=options, stream=True))
        self.assertEqual("".join(piece.message.content for piece in pieces), whole.message.content)
        self.assertTrue(pieces[-1].done)
        self.assertTrue(client.generate(model="any", prompt="hello", options=options).done)
        self.assertEqual(client.list().models[0].model, "cli_tiny")
        self.assertEqual(client.show("cli_tiny").details.format, "gguf")
        with self.assertRaises(ollama.ResponseError):
            client.chat(model="any", messages=HELLO, options={"temperature": -1})


if __name__ == "__main__":
    unittest.main()
