"""Compares the FLOPs of a step with counts by hand; checks shapes of the catalog's configs."""
import sys
import unittest

import model_flops

CATALOG = sys.argv.pop(1)


def config(name):
    return model_flops.read_config(f"{CATALOG}/{name}/config.json")


class FlopsTest(unittest.TestCase):
    def test_gpt2_xl_by_hand(self):
        # 48 layers of 1600 with 25 heads of 64: qkv 3 x 1600², out 1600², feed-forward 8 x 1600²: 12 x 1600².
        weights = 48 * 12 * 1600**2 + 1600 * 50257
        # Each weight: multiply and add in the forward, twice that in the backward. A token sees half of 1024 keys on
        # average: scores and values are 2 x 2 x 512 x 1600 per token and layer, and twice that in the backward.
        expected = 6 * weights + 3 * 48 * (2 * 2 * 512 * 1600)
        self.assertEqual(model_flops.flops_per_token(config("gpt2-xl"), 1024), expected)

    def test_llama_by_hand(self):
        # 32 layers of 4096: q and out 4096², k and v 4096 x 1024, three matrices of 4096 x 14336; a head of 128256.
        weights = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256
        expected = 6 * weights + 3 * 32 * (2 * 2 * 4096 * 4096)
        self.assertEqual(model_flops.flops_per_token(config("llama-3.1-8b"), 8192), expected)

    def test_qwen_has_few_heads_of_keys(self):
        c = config("qwen2.5-1.5b")
        self.assertEqual((c["width"], c["heads"], c["kv_heads"], c["head_size"], c["inner"]), (1536, 12, 2, 128, 8960))
        self.assertTrue(c["qkv_bias"] and c["tied"] and not c["bias"])

    def test_microbatches(self):
        self.assertEqual(model_flops.microbatches(65536, 1024, 16), 4)
        self.assertEqual(model_flops.microbatches(524288, 8192, 1), 64)
        for tokens, sequence, microbatch in ((65536, 1000, 16), (0, 1, 1), (5, 0, 1)):
            with self.assertRaises(SystemExit):
                model_flops.microbatches(tokens, sequence, microbatch)


unittest.main()
