#!/usr/bin/env python3
"""LangChain with `tamis serve`: an answer, a stream, a tool that the model calls.

usage: pip install --require-hashes -r examples/requirements-langchain.txt
       tamis serve &
       examples/langchain_chat.py [URL]        the server's address, http://127.0.0.1:8080 by default
"""
import sys
from typing import Literal

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
model = ChatOpenAI(base_url=url + "/v1", api_key="none", model="any", temperature=0, max_tokens=200)


@tool
def temperature(city: Literal["Paris", "Rome"]) -> str:
    """How warm it is in a city, in degrees."""
    return {"Paris": "18", "Rome": "24"}[city]


question = [SystemMessage("Answer in one sentence."), HumanMessage("What is the capital of France?")]
print("answer:", model.invoke(question).content)

print("stream: ", end="")
for chunk in model.stream(question):
    print(chunk.content, end="", flush=True)
print()

messages = [HumanMessage("How warm is it in Rome?")]
# "required": the answer is a call, whose arguments the server holds to the tool's types.
messages.append(model.bind_tools([temperature], tool_choice="required", parallel_tool_calls=False).invoke(messages))
for call in messages[-1].tool_calls:
    messages.append(temperature.invoke(call))  # the result, as a message
    print("call:", call["name"], call["args"], "gives", messages[-1].content)
print("answer:", model.invoke(messages).content)
