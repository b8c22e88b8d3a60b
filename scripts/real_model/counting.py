"""Counts prompts before they are sent, and compares with what the model server counts when it gets them.

The gateway serves the model twice: under its name, where it asks llama.cpp's own tokenizer, and behind
a prefix, where it estimates.
"""

import ask
from shapes import expect
from wire import Server

PATH = "/v1/responses"
ESTIMATING = "estimated/"
HEADER = "antwort-token-count"
# The model's chat template puts a system prompt of its own before a conversation that has none.
TEMPLATE_TOKENS = 32

PROSE = (
    "The harbour was quiet in the early morning. Two boats had come in during the night, and the men who "
    "unloaded them spoke little. By eight o'clock the market was open: fish on ice, bread, coffee in paper "
    "cups, and a dog that belonged to nobody and was fed by everyone. "
) * 6
CODE = (
    "def moving_average(values: list[float], width: int) -> list[float]:\n"
    '    """Averages each value with the ones before it."""\n'
    "    if width < 1:\n        raise ValueError('width must be positive')\n"
    "    sums = [0.0]\n    for value in values:\n        sums.append(sums[-1] + value)\n"
    "    return [(sums[i] - sums[max(0, i - width)]) / min(i, width) for i in range(1, len(sums))]\n"
) * 4
NUMBERS = "\n".join(f"2026-11-{day:02d};{day * 7919 % 1000}.{day * 104729 % 100:02d};{day * 15485863 % 97}" for day in range(1, 31))
GERMAN = (
    "Am Hafen war es frühmorgens still. Zwei Boote waren in der Nacht eingelaufen, und die Männer, die sie "
    "entluden, sprachen wenig. Gegen acht Uhr öffnete der Markt: Fisch auf Eis, Brot, Kaffee in Pappbechern. "
) * 6

PROMPTS = {
    "a question": {"input": ask.FACT},
    "with instructions": {"input": ask.FACT, "instructions": "You answer briefly and never guess."},
    "English prose": {"input": PROSE},
    "German prose": {"input": GERMAN},
    "code": {"input": CODE},
    "numbers": {"input": NUMBERS},
    "a conversation": {
        "input": [
            {"role": "user", "content": ask.NAME},
            {"role": "assistant", "content": "Hello Ada, nice to meet you."},
            {"role": "user", "content": ask.WHICH_NAME},
        ]
    },
}


def counted(server: Server) -> None:
    """What is counted exactly is what the model server counts; how far the estimate is off is printed."""
    print(f"{'prompt':20} {'used':>6} {'exact':>6} {'estimate':>9} {'error':>7}")
    for name, prompt in PROMPTS.items():
        used = server.post(PATH, prompt | {"max_output_tokens": 1, "store": False})["usage"]["input_tokens"]
        exact, how = count(server, prompt)
        expect(how == "exact", f"{name}: {HEADER} is {how}")
        expect(exact == used, f"{name}: counted {exact} tokens, and the model was given {used}")
        estimate, how = count(server, prompt | {"model": ESTIMATING + server.model})
        expect(how == "estimate", f"{name}: {HEADER} is {how} without a tokenizer")
        print(f"{name:20} {used:6} {exact:6} {estimate:9} {(estimate - used) / used:+7.1%}")
        off = abs(estimate - used)
        expect(off < TEMPLATE_TOKENS + used / 2, f"{name}: the estimate {estimate} is nowhere near {used}")


def count(server: Server, prompt: dict) -> tuple[int, str | None]:
    """The count of a prompt, and the header that says how it was made."""
    body, headers = server.post_for_headers(f"{PATH}/input_tokens", prompt)
    expect(body["object"] == "response.input_tokens", f"the object is {body['object']!r}")
    return body["input_tokens"], headers.get(HEADER)


CHECKS = [("tokens counted beforehand", counted, "chat")]
