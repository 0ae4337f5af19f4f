#!/usr/bin/env python3
"""Writes a token file that a language model can learn something from: `make_tokens.py OUT [TOKENS]`.

A random walk over the tokens of GPT-2. One time in eight it repeats the token eight places back. Otherwise it takes one
of the token's four successors, most often the first or one of the others at random. All random numbers come from one
64-bit linear congruence, so every machine writes the same bytes.
"""
import struct
import sys

VOCABULARY = 50257
# Only tokens below this occur.
OCCURRING = 8192


def tokens(count):
    state = 88172645463325252
    history = [0] * 8
    token = 1
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        draw = state >> 40
        if draw % 8 == 0:
            token = history[i % 8]
        else:
            successor = 0 if draw % 2 == 0 else 1 + (draw >> 8) % 3
            token = (token * 2654435761 + successor * 2246822519 + 374761393) % 2**32 * OCCURRING >> 32
        history[i % 8] = token
        yield token


def main():
    path = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 18
    with open(path, "wb") as out:
        out.write(b"WEFTTOKN" + struct.pack("<IIQQ", 1, 1, VOCABULARY, count))
        out.write(b"".join(struct.pack("<H", t) for t in tokens(count)))


if __name__ == "__main__":
    main()
