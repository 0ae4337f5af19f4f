#!/usr/bin/env bash
# weft convert: forms, types by content, files that cannot be read.
set -uo pipefail
WEFT=$(readlink -m "$1")
source "$(dirname "$0")/expect.sh"
cd "$TEST_TMPDIR" || exit 1

cat >recipe.textproto <<'R'
sequence_length: 128
global_batch_sequences: 8
lr { peak: 0.001 decay: "cosine" }
R
# Converting to another format and back gives the same message, for every pair of formats.
expect 0 '^  "sequence_length": 128,$' convert recipe.textproto --type=recipe --to=json
for format in text json binary; do
  "$WEFT" convert recipe.textproto --type=recipe --to=$format -o recipe.$format || fail "to $format"
  "$WEFT" convert recipe.$format --type=recipe --to=text >back.textproto || fail "from $format"
  cmp -s back.textproto recipe.text || fail "recipe changed on the way through $format"
done

# Without --type, the content decides the type if only one type fits.
expect 0 '^  "sequence_length": 128,$' convert recipe.textproto --to=json
echo 'name: "x"' >name.textproto
expect 1 'name.textproto: the content could be of type cluster or model_graph or .*; name one with --type' \
  convert name.textproto --to=json
echo 'nonsense: 1' >nonsense.textproto
expect 1 'nonsense.textproto: the content is of none of the known types' convert nonsense.textproto --to=json
expect 1 "nonsense.textproto:1:1: unknown field 'nonsense' of Plan" convert nonsense.textproto --type=plan --to=json

# A Hugging Face config is a model graph.
cat >config.json <<'C'
{"model_type": "gpt2", "vocab_size": 64, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}
C
expect 0 'kind: "attention"' convert config.json --to=text
"$WEFT" convert config.json --to=binary -o model.pb || fail "config to binary"
expect 0 '"kind": "attention"' convert model.pb --type=model_graph --to=json
echo '{"model_type": "gpt2", "vocab_size": -1}' >bad.json
expect 1 'bad.json: .*vocab_size' convert bad.json --to=text

# Program files.
printf 'WEFTPROG\1\0\0\0' >short.weft
expect 1 'short.weft: ' convert short.weft --to=text
printf 'WEFTPROG\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >newer.weft
expect 1 'newer.weft: has program format 255' convert newer.weft --to=text

# Raw pixels become an image file.
printf '%48s' '' >raw
"$WEFT" convert raw --to=images --image=4x4x3 -o one.img || fail "raw pixels to an image file"
[[ $(head -c 8 one.img) == WEFTIMGS && $(wc -c <one.img) == 88 ]] || fail "image file"
expect 1 'raw: 48 bytes are not whole images of 4x4x2' convert raw --to=images --image=4x4x2 -o two.img
expect 1 'one.img: is an image file already' convert one.img --to=images --image=4x4x3 -o two.img
cp recipe.text mine.text
expect 2 'mine.text' convert mine.text --type=recipe --to=json -o mine.text
cmp recipe.text mine.text || fail "convert has overwritten its input"
expect 2 'need each other' convert raw --to=images -o two.img
expect 2 'need each other' convert recipe.textproto --to=text --image=4x4x3

expect 1 'missing.json' convert missing.json --to=text
expect 1 '/' convert / --to=text
expect 1 'no/such/folder' convert recipe.textproto --type=recipe --to=text -o no/such/folder/x
expect 2 'needed' convert recipe.textproto
expect 2 "to='yaml': allowed: text, json, binary, images" convert recipe.textproto --to=yaml
expect 2 "type='recip': allowed: .*nearest valid: recipe" convert recipe.textproto --to=text --type=recip
# An empty file is reported as empty. A trace that weft wrote for viewers can be read.
: >nothing
expect 1 '^weft convert: nothing: the file is empty$' convert nothing --to=json
"$WEFT" simulate --model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=8 --trace=viewers.json \
  >/dev/null 2>&1 || fail "simulate"
"$WEFT" simulate --model=gpt2-tiny --cluster=dgx-a100-80g --set seq=64 --set gbs=8 --trace=plain.trace \
  >/dev/null 2>&1 || fail "simulate"
"$WEFT" convert viewers.json --to=text | cmp -s - <("$WEFT" convert plain.trace --to=text) ||
  fail "a trace for viewers is another"
head -c 1000 viewers.json >cut.json
expect 1 'cut.json: this trace for viewers is cut off' convert cut.json --to=text
finish
